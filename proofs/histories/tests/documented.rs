//! What the docs permit and a reader may not expect: it does happen, so the models have to permit it.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tickless::{Batch, Builder, ManualClock, ResetError, State};
use tickless_keyed::{KeyedTimers, Scheduled};
use tickless_sync::Mutex;

#[test]
fn the_handle_of_a_payload_that_a_stop_takes_from_a_batch_says_fired() {
    let (begin, begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let handler = move |batch: Batch<'_, u32>| {
        for payload in batch {
            begin.send(payload).expect("the test listens");
            let _ = released.lock().expect("one at a time").recv();
        }
    };
    let builder = Builder::new().manual_clock(&ManualClock::new()).shards(1);
    let engine = builder.build_with_handler(handler).expect("an engine");
    let mut handles = [1, 2].map(|n| engine.schedule(Duration::ZERO, n).expect("it is open"));
    thread::scope(|threads| {
        threads.spawn(|| engine.turn(0));
        let first = begun.recv().expect("the handler has one");
        let stopped = engine.stop_within(Duration::ZERO).expect("from outside");
        let second = 3 - first;
        assert_eq!((stopped.returned, stopped.running), (vec![second], 1), "the task still runs");
        drop(release);
        assert_eq!(engine.stop().expect("from outside"), []);
        // The stop has returned the payload, and no handler ever had it.
        let handle = &mut handles[second as usize - 1];
        assert_eq!(handle.state(), State::Fired);
        assert_eq!(handle.reset(Duration::from_secs(1)), Err(ResetError::TooLate));
    });
    assert!(begun.try_recv().is_err());
    handles.into_iter().for_each(|handle| assert!(!handle.cancel()));
}

thread_local! {
    /// Stops this thread in its next comparison of keys.
    static PAUSE: RefCell<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>> =
        const { RefCell::new(None) };
}

/// The only key.
struct Key;

impl PartialEq for Key {
    fn eq(&self, _: &Key) -> bool {
        if let Some((reached, go_on)) = PAUSE.take() {
            reached.send(()).expect("the test listens");
            let _ = go_on.recv();
        }
        true
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(0);
    }
}

#[test]
fn a_timer_is_entered_under_its_key_after_the_stop_that_has_returned_its_task() {
    let engine = tickless::Engine::builder().build().expect("an engine");
    let timers = KeyedTimers::with_engine(&engine);
    let hour = Duration::from_secs(3600);
    timers.schedule_keyed(Key, hour, || ()).expect("it is open");
    let (reached, wait) = mpsc::channel();
    let (go_on, paused) = mpsc::channel::<()>();
    thread::scope(|threads| {
        let replacing = threads.spawn(|| {
            PAUSE.set(Some((reached, paused)));
            timers.schedule_keyed(Key, hour, || ())
        });
        wait.recv().expect("it comes there");
        let returned = engine.stop().expect("from outside");
        assert_eq!(returned.len(), 2, "the old task and the new one");
        assert!(engine.schedule_detached(hour, || ()).is_err(), "it has stopped");
        drop(go_on);
        let replaced = replacing.join().expect("no panic");
        assert_eq!(replaced.expect("it was scheduled in time"), Scheduled::Replaced);
        assert_eq!(timers.len(), 1, "it waits until its task is dropped");
        drop(returned);
        assert_eq!(timers.len(), 0);
    });
}
