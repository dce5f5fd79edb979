//! Destructors of others that use the timers: of what a thread has retired in `sdd`, which other
//! crates' maps are built on and which runs them when the thread next comes by, in the middle of
//! whatever it is doing; and of what a thread has to its very end. A map of ours that shared that
//! reclamation ran them under its own locks, and could not be used by a thread that ends.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use support::mpsc;
use support::patience::PATIENCE;
use support::threads::spawn;
use tickless::Engine;
use tickless::ManualClock;
use tickless_keyed::KeyedTimers;

const HOUR: Duration = Duration::from_secs(3600);

/// Enough for the reclamation to come by a few times.
const ROUNDS: u64 = 1_000;

type Timers = KeyedTimers<u64>;

/// Timers whose clock stands still.
fn by_hand() -> (Timers, Engine) {
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    (Timers::with_engine(&engine), engine)
}

/// Runs `f` on a thread of its own, which has to come back.
fn within_patience<R: Send + 'static>(what: u64, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    spawn(move || sender.send(f()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it hangs: {what}"))
}

/// What another crate retired on this thread: uses the timers when it is dropped, under a key that
/// shares its part of the map with one that a call is at.
struct Foreign {
    timers: Timers,
    key: u64,
    dropped: Arc<AtomicU32>,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        self.timers.cancel(&self.key);
        self.timers.contains_key(&self.key);
        let _ = self.timers.reset(&self.key, HOUR);
        let _ = self.timers.schedule_keyed(self.key, HOUR, || ());
    }
}

#[test]
fn a_destructor_that_uses_the_timers_may_run_inside_any_call() {
    for keys in 1..=12 {
        let (timers, engine) = by_hand();
        let dropped = Arc::new(AtomicU32::new(0));
        let count = dropped.clone();
        within_patience(keys, move || {
            for round in 0..ROUNDS {
                let key = round % keys;
                let foreign = Foreign {
                    timers: timers.clone(),
                    key: (round + 1) % keys,
                    dropped: count.clone(),
                };
                drop(sdd::Shared::new(foreign));
                timers.schedule_keyed(key, HOUR, || ()).unwrap();
                let _ = timers.reset(&key, HOUR * 2);
                let _ = timers.reset(&key, HOUR);
                let _ = (timers.contains_key(&key), timers.deadline(&key), timers.len());
                timers.for_each_key(|_| ());
                if round % 3 == 0 {
                    timers.cancel(&key);
                }
                if round % 500 == 0 {
                    timers.cancel_all();
                }
            }
            // What is left over goes on the way.
            while u64::from(count.load(Ordering::SeqCst)) < ROUNDS {
                sdd::Guard::new().accelerate();
            }
            timers.cancel_all();
            assert!(timers.is_empty() && engine.is_empty());
        });
        assert_eq!(u64::from(dropped.load(Ordering::SeqCst)), ROUNDS);
    }
}

thread_local! {
    /// Something that a thread has to its very end.
    static OWNED: RefCell<Option<Foreign>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_may_use_the_timers_to_its_very_end() {
    for uses_them_first in [false, true] {
        let (timers, engine) = by_hand();
        let dropped = Arc::new(AtomicU32::new(0));
        let (foreign, first) = (timers.clone(), timers.clone());
        let count = dropped.clone();
        let end = spawn(move || {
            if uses_them_first {
                first.schedule_keyed(1, HOUR, || ()).unwrap();
            }
            OWNED.set(Some(Foreign { timers: foreign, key: 1, dropped: count }));
            first.schedule_keyed(2, HOUR, || ()).unwrap();
        });
        end.join().unwrap();
        assert_eq!((dropped.load(Ordering::SeqCst), timers.len(), engine.len()), (1, 2, 2));
    }
}
