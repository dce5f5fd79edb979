//! Engines that end while they are looked at and while timers are scheduled.

use support::looked_at::look_until_after_the_end;
use tickless::Engine;

#[test]
fn engines_end_while_they_are_looked_at() {
    for n in 0..20 {
        let engine = Engine::new().unwrap();
        let view = engine.view();
        let look = || {
            let seen = [
                view.snapshot().is_some(),
                view.overdue().is_some(),
                view.stats().is_some(),
                view.latenesses().is_some(),
            ];
            assert!(seen.is_sorted_by(|before, after| before >= after), "gone for good");
        };
        look_until_after_the_end([engine.clone(), engine.clone()], look, || match n % 2 {
            0 => drop(engine.stop()),
            _ => drop(engine),
        });
    }
}
