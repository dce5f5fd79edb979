//! Histories of keys: schedule, replace, schedule if absent, cancel, take, reset, look up, stop.

use histories::checker::check;
use histories::driver::{number, run};
use histories::key::Key;
use histories::keys;

#[test]
fn histories_of_keys_are_linearizable() {
    let count = number("HISTORIES", 1_000) / 4;
    let mut stops_in_parts = 0;
    let record = |scenario: &_| keys::record(scenario, None);
    let report = run::<Key>("keys", count, record, |_, history| {
        stops_in_parts += usize::from(check::<Key<true>>(history).is_err());
    });
    println!("keys: {report}");
    println!("{stops_in_parts} histories tell that a stop does not close an engine at one moment");
    assert!(report.overlapping > 0, "without overlaps, a history shows nothing");
    for outcome in ["cancel by key: true", "schedule_keyed: replaced", "the task starts"] {
        assert!(count < 250 || report.outcome(outcome) > 0, "never: {outcome}");
    }
}
