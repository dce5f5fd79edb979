//! Histories of timers whose tasks can be waited for: cancel, `cancel_wait`, stage, reset, stop.

use histories::driver::{number, run};
use histories::waited::Waited;
use histories::waits;

#[test]
fn histories_of_waits_are_linearizable() {
    let count = number("HISTORIES", 1_000) / 4;
    let record = |scenario: &_| waits::record(scenario, None);
    let report = run::<Waited>("waits", count, record, |_, _| ());
    println!("waits: {report}");
    assert!(report.overlapping > 0, "without overlaps, a history shows nothing");
    for outcome in ["cancel_wait: cancelled", "cancel_wait: finished", "the task begins"] {
        assert!(count < 250 || report.outcome(outcome) > 0, "never: {outcome}");
    }
}
