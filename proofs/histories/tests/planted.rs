//! The check can fail: each fault that is planted between the engine and the record is found, and
//! found in operations that show it.

use std::time::{Duration, Instant};

use histories::checker::{Rejected, check, is_linearizable};
use histories::faults::{Fault, is_unlucky};
use histories::history::{Model, Operation};
use histories::scenario::Scenario;
use histories::timer::{Call, Seen, Timer};
use histories::waited::Waited;
use histories::{handles, key, keys, waited, waits};

/// After this time a fault goes unnoticed. Each shows within seconds, but a machine that others
/// keep busy is slow, and the order of threads is left to it.
const PATIENCE: Duration = Duration::from_secs(600);

/// Records histories until one is rejected. Only beside a timer that is lost does the recorder wait
/// for the others in the end: with other faults, it does not know which timers are over.
fn rejected<M: Model>(
    fault: Fault,
    record: impl Fn(&Scenario, Option<Fault>) -> Vec<Operation<M::Call>>,
) -> Rejected<M::Call> {
    let begin = Instant::now();
    let mut seeds = (0..).take_while(|_| begin.elapsed() < PATIENCE);
    let found = seeds.find_map(|seed| {
        let scenario = Scenario { drains: fault == Fault::LostTimer, ..Scenario::of(seed) };
        check::<M>(&record(&scenario, Some(fault))).err()
    });
    found.unwrap_or_else(|| panic!("{fault:?} goes unnoticed"))
}

/// The calls on the timer that was rejected. (The shrunk history may show only what follows from
/// the fault: a timer of which nothing tells how it ended, for example.)
fn of_timer(fault: Fault) -> Vec<Call> {
    let rejected = rejected::<Timer>(fault, handles::record);
    rejected.operations.into_iter().map(|operation| operation.call).collect()
}

fn of_key(fault: Fault) -> Vec<key::Call> {
    let rejected = rejected::<key::Key>(fault, keys::record);
    rejected.operations.into_iter().map(|operation| operation.call).collect()
}

fn is_moved(call: &Call) -> bool {
    matches!(call, Call::Reset(_, Ok(())))
}

fn is_returned(call: &Call) -> bool {
    matches!(call, Call::Return { is_returned: true, .. })
}

#[test]
fn a_cancel_that_looks_first_and_acts_later_is_found() {
    let calls = of_timer(Fault::CheckThenActCancel);
    assert!(calls.contains(&Call::Cancel(true)), "{calls:?}");
    assert!(calls.contains(&Call::Fire) || calls.iter().any(is_returned), "{calls:?}");
}

#[test]
fn a_cancel_that_denies_its_success_is_found() {
    let calls = of_timer(Fault::DenyingCancel);
    assert!(calls.contains(&Call::Cancel(false)) && !calls.contains(&Call::Fire), "{calls:?}");
}

#[test]
fn a_reset_that_succeeds_after_the_fire_is_found() {
    let calls = of_timer(Fault::ResetAfterFire);
    assert!(calls.iter().any(is_moved), "{calls:?}");
}

#[test]
fn a_reset_after_which_the_timer_fires_at_its_old_time_is_found() {
    let calls = of_timer(Fault::ResetThatForgets);
    assert!(calls.iter().any(is_moved), "{calls:?}");
}

#[test]
fn a_timer_that_fires_twice_is_found() {
    let calls = of_timer(Fault::FireTwice);
    assert_eq!(calls.iter().filter(|call| **call == Call::Fire).count(), 2, "{calls:?}");
}

#[test]
fn a_timer_that_is_lost_is_found() {
    let rejected = rejected::<Timer>(Fault::LostTimer, handles::record);
    let calls: Vec<Call> = rejected.shrunk.iter().map(|it| it.call.clone()).collect();
    assert!(is_unlucky(rejected.shrunk[0].id) && !calls.contains(&Call::Fire), "{calls:?}");
    assert!(calls.contains(&Call::Quiet), "{calls:?}");
}

#[test]
fn a_timer_that_fires_early_is_found() {
    let rejected = rejected::<Timer>(Fault::EarlyFire, handles::record);
    let without_deadline = |mut it: Operation<Call>| {
        it.from_ns = 0;
        match &mut it.call {
            Call::Schedule(delay, _) | Call::Reset(delay, _) => *delay = 0,
            _ => {}
        }
        it
    };
    let operations = rejected.operations.into_iter().filter(|it| it.call != Call::Quiet);
    let operations: Vec<_> = operations.map(without_deadline).collect();
    assert!(is_linearizable::<Timer>(&operations), "only the time was wrong: {operations:#?}");
}

#[test]
fn a_state_that_runs_backwards_is_found() {
    let calls = of_timer(Fault::BackwardState);
    assert!(calls.contains(&Call::State(Seen::Pending)), "{calls:?}");
}

#[test]
fn a_payload_that_a_stop_keeps_is_found() {
    let calls = of_timer(Fault::StopThatForgets);
    let is_over = calls.iter().any(|call| is_returned(call) || *call == Call::Fire);
    assert!(!is_over && !calls.contains(&Call::Cancel(true)), "{calls:?}");
}

#[test]
fn a_payload_that_two_stops_return_is_found() {
    let calls = of_timer(Fault::StopThatRepeats);
    assert!(calls.iter().filter(|call| is_returned(call)).count() > 1, "{calls:?}");
}

#[test]
fn a_wait_that_ends_before_the_task_is_found() {
    let rejected = rejected::<Waited>(Fault::WaitThatReturnsEarly, waits::record);
    let is_wait = |it: &Operation<waited::Call>| matches!(it.call, waited::Call::Settle(_));
    assert!(rejected.shrunk.iter().any(is_wait), "{rejected}");
}

#[test]
fn a_cancel_by_key_that_looks_first_and_acts_later_is_found() {
    let calls = of_key(Fault::CheckThenActKey);
    let is_cancel = |call: &key::Call| matches!(call, key::Call::Cancel { .. });
    assert!(calls.iter().any(is_cancel), "{calls:?}");
}

#[test]
fn a_replacement_that_claims_to_be_the_first_is_found() {
    let calls = of_key(Fault::SilentReplacement);
    let is_new = |call: &key::Call| matches!(call, key::Call::Put(_, _, key::Put::New));
    assert!(calls.iter().any(is_new), "{calls:?}");
}

#[test]
fn a_reset_of_nothing_that_succeeds_is_found() {
    let calls = of_key(Fault::ResetOfNothing);
    let is_reset = |call: &key::Call| matches!(call, key::Call::Reset(_, key::Reset::Ok));
    assert!(calls.iter().any(is_reset), "{calls:?}");
}

#[test]
fn a_key_that_does_not_find_its_due_timer_is_found() {
    let calls = of_key(Fault::EarlyAbsence);
    assert!(calls.contains(&key::Call::Contains(false)), "{calls:?}");
}
