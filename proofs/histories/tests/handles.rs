//! Histories of timers with handles: schedule, cancel, take, reset, drop, state, fire, stop.

use std::sync::atomic::Ordering;

use histories::driver::{number, run};
use histories::handles;
use histories::timer::{Call, Refusal, Timer};

#[test]
fn histories_of_handles_are_linearizable() {
    let count = number("HISTORIES", 1_000) / 2;
    let (mut late, mut with_late) = (0, 0);
    let record = |scenario: &_| handles::record(scenario, None);
    let report = run::<Timer>("handles", count, record, |_, history| {
        let is_refused = |call: &Call| matches!(call, Call::Schedule(_, Err(Refusal::Stopped)));
        let refusals = history.iter().filter(|it| is_refused(&it.call));
        let first = refusals.map(|it| it.end).min().unwrap_or(u64::MAX);
        let accepted = |call: &Call| matches!(call, Call::Schedule(_, Ok(())));
        let after = history.iter().filter(|it| accepted(&it.call) && first < it.begin).count();
        late += after;
        with_late += usize::from(after > 0);
    });
    println!("handles: {report}");
    println!("{} takeovers", handles::TAKEOVERS.load(Ordering::Relaxed));
    println!("{late} schedules in {with_late} histories succeeded after another was refused");
    assert!(report.overlapping > 0, "without overlaps, a history shows nothing");
    for outcome in ["fire", "cancel: true", "cancel: false", "reset: ok", "reset: too late"] {
        assert!(count < 500 || report.outcome(outcome) > 0, "never: {outcome}");
    }
}
