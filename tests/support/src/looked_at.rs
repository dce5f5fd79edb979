//! Engines that end while they are looked at and while timers are scheduled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tickless::Engine;

use crate::until::wait_until;

/// Looks again and again, and schedules on both engines, until after the `end`.
pub fn look_until_after_the_end(
    engines: [Engine; 2],
    mut look: impl FnMut() + Send,
    end: impl FnOnce(),
) {
    let (is_seen, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|threads| {
        let looker = threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                look();
                is_seen.store(true, Ordering::Relaxed);
            }
        });
        let schedulers = engines.map(|engine| {
            threads.spawn(|| {
                let engine = engine;
                for delay in (0..7).map(Duration::from_millis).cycle() {
                    let refused = engine.schedule_detached(delay, || ()).is_err();
                    if refused || is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    thread::yield_now();
                }
            })
        });
        wait_until("somebody has looked", || is_seen.load(Ordering::Relaxed));
        end();
        is_over.store(true, Ordering::Relaxed);
        // ThreadSanitizer does not see that a scope waits for its threads.
        looker.join().unwrap();
        schedulers.into_iter().for_each(|scheduler| scheduler.join().unwrap());
    });
}
