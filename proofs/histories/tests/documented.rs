//! What a handle says of a payload that a reaper has collected and a stop returns.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tickless::sync::Mutex;
use tickless::{Batch, Builder, ManualClock, ResetError, State};

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
        assert_eq!((stopped.returned.len(), stopped.running), (0, 1), "the task has the rest");
        drop(release);
        let second = 3 - first;
        assert_eq!(engine.stop().expect("from outside"), [second]);
        // The stop has returned the payload, and no handler ever had it.
        let handle = &mut handles[second as usize - 1];
        assert_eq!(handle.state(), State::Fired);
        assert_eq!(handle.reset(Duration::from_secs(1)), Err(ResetError::TooLate));
    });
    assert!(begun.try_recv().is_err());
    handles.into_iter().for_each(|handle| assert!(!handle.cancel()));
}
