//! Engines that end while they are looked at and while timers are scheduled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tickless::Engine;

#[test]
fn engines_end_while_they_are_looked_at() {
    for n in 0..20 {
        let engine = Engine::new().unwrap();
        engine.sample_callers(true);
        let view = engine.view();
        let (is_seen, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|threads| {
            let looker = threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let seen = [
                        view.snapshot().is_some(),
                        view.overdue().is_some(),
                        view.stats().is_some(),
                        view.latenesses().is_some(),
                        view.callers().is_some(),
                    ];
                    assert!(seen.is_sorted_by(|before, after| before >= after), "gone for good");
                    is_seen.store(true, Ordering::Relaxed);
                }
            });
            let scheduler = || {
                let (engine, is_over) = (engine.clone(), &is_over);
                threads.spawn(move || {
                    for delay in (0..7).map(Duration::from_millis).cycle() {
                        let refused = engine.schedule_detached(delay, || ()).is_err();
                        if refused || is_over.load(Ordering::Relaxed) {
                            return;
                        }
                        thread::yield_now();
                    }
                })
            };
            let schedulers = [scheduler(), scheduler()];
            while !is_seen.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            match n % 2 {
                0 => drop(engine.stop()),
                _ => drop(engine),
            }
            is_over.store(true, Ordering::Relaxed);
            // ThreadSanitizer does not see that a scope waits for its threads.
            looker.join().unwrap();
            schedulers.into_iter().for_each(|scheduler| scheduler.join().unwrap());
        });
    }
}
