//! Walks of lists beside threads that cancel: who walks under the owner's lock, or under a guard,
//! comes across no memory that another thread frees.
//!
//! With AddressSanitizer each entry is a block of its own (`ci/asan.sh`), so a walk that comes
//! across one that was freed is reported. `TICKLESS_TEST_SCALE` multiplies how much is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use support::scaled;
use tickless::{Engine, Handle, ManualClock};

/// Threads that cancel.
const STORMS: usize = 2;

/// Timers that each of them schedules and cancels at a time.
const TIMERS: usize = 5_000;

/// Counts itself out when it ends, however that is.
struct Storm(Arc<AtomicUsize>);

impl Drop for Storm {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Calls `walk` again and again, until threads that schedule timers which are never due, and cancel
/// them, are done. They call `wake` now and then, and in the end.
fn walk_beside_storms(engine: &Engine, wake: impl Fn() + Sync, mut walk: impl FnMut(&AtomicUsize)) {
    let left = Arc::new(AtomicUsize::new(STORMS));
    thread::scope(|scope| {
        let storms = [(); STORMS].map(|()| {
            let (storm, wake) = (Storm(left.clone()), &wake);
            scope.spawn(move || {
                for _ in 0..scaled(10) {
                    let schedule = |_| engine.schedule(Duration::MAX, || ()).unwrap();
                    let timers: Vec<Handle> = (0..TIMERS).map(schedule).collect();
                    for (n, timer) in timers.into_iter().enumerate() {
                        assert!(timer.cancel());
                        if n % 64 == 0 {
                            wake();
                        }
                    }
                }
                drop(storm);
                wake();
            })
        });
        while left.load(Ordering::Acquire) > 0 {
            walk(&left);
        }
        // The end of a scope does not wait for what a thread gives back as it ends.
        storms.into_iter().for_each(|storm| storm.join().unwrap());
    });
    engine.check().unwrap();
}

fn by_hand() -> Engine {
    Engine::builder().manual_clock(&ManualClock::new()).build().unwrap()
}

#[test]
fn time_goes_to_the_next_timer_beside_threads_that_cancel() {
    let engine = by_hand();
    walk_beside_storms(&engine, || (), |_| assert_eq!(engine.advance_to_next(), Ok(None)));
}

/// What it finds while others schedule and cancel means nothing.
#[test]
fn an_engine_is_checked_beside_threads_that_cancel() {
    let engine = by_hand();
    walk_beside_storms(&engine, || (), |_| _ = engine.check());
}

/// (ThreadSanitizer sees this walk in the first test: a paused engine comes with a runtime, which
/// would be built for this alone.)
#[cfg(not(tsan))]
#[test]
fn a_paused_engine_looks_for_the_next_timer_beside_threads_that_cancel() {
    use std::future::poll_fn;
    use std::task::Poll;

    use futures_util::task::AtomicWaker;
    use tickless::test::Paused;

    let (paused, waker) = (Paused::new(), AtomicWaker::new());
    // It looks before it waits to be woken.
    let wait = |left: &AtomicUsize| {
        paused.block_on(poll_fn(|cx| {
            waker.register(cx.waker());
            match left.load(Ordering::Acquire) {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
    };
    walk_beside_storms(paused.engine(), || waker.wake(), wait);
}
