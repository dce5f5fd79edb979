//! Tests of the events that a search reaches rarely or never, each of which has to reach its own.
//!
//! Those of `alone` and `parts` are steps of one thread, or of several that wait for each other.
//! Those of `races` have a call of one thread in the middle of another one's.

mod alone;
mod parts;
mod races;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::events::counts;
use crate::meanwhile;

/// How long a test may try: a machine that others keep busy is slow, and no order is left to it.
const PATIENCE: Duration = Duration::from_secs(600);

/// A test, and the events that it has to reach.
type Test = (&'static str, fn(), &'static [&'static str]);

const TESTS: &[Test] = &[
    (
        "alone::a_cascade_is_cut_short",
        alone::a_cascade_is_cut_short,
        &["CascadePaused", "ClosedCascade", "CascadeOvertaken"],
    ),
    ("alone::a_round_is_cascaded", alone::a_round_is_cascaded, &["CascadeOfRound", "CascadeDue"]),
    (
        "alone::crowded_buckets_are_parked",
        alone::crowded_buckets_are_parked,
        &["Parked", "ParkedAlone", "ClosedParked"],
    ),
    ("alone::a_crowd_is_filed", alone::a_crowd_is_filed, &["ManySeen", "WokeAhead"]),
    ("alone::a_crowd_is_cancelled", alone::a_crowd_is_cancelled, &["SeatsSurplus"]),
    ("alone::a_bucket_fills_under_a_sweep", alone::a_bucket_fills_under_a_sweep, &["SweepPassed"]),
    ("alone::rounds_open_under_a_sweep", alone::rounds_open_under_a_sweep, &["SweepRoundGone"]),
    (
        "alone::a_hook_turns_and_schedules",
        alone::a_hook_turns_and_schedules,
        &["HookInside", "HookAgain"],
    ),
    ("alone::a_reset_in_a_reset", alone::a_reset_in_a_reset, &["KeySuperseded"]),
    ("alone::a_role_is_awaited", alone::a_role_is_awaited, &["RoleAwaited", "RoleAwaitedEnd"]),
    (
        "parts::a_shard_is_closed_in_a_reset",
        parts::a_shard_is_closed_in_a_reset,
        &["Stranded", "ClosedTurn"],
    ),
    ("parts::a_bucket_opens_under_a_sweep", parts::a_bucket_opens_under_a_sweep, &["SweepLeft"]),
    ("parts::a_takeover_is_late", parts::a_takeover_is_late, &["TakeOverLate"]),
    ("races::a_turn_in_a_cancel", races::a_turn_in_a_cancel, &["CancelLost"]),
    ("races::a_turn_in_a_reset", races::a_turn_in_a_reset, &["ResetLost", "RefiledLate"]),
    ("races::a_turn_as_a_handle_is_let_go", races::a_turn_as_a_handle_is_let_go, &["LetGoLost"]),
    (
        "races::holders_in_a_turn",
        races::holders_in_a_turn,
        &["EndLost", "RefileLost", "HandleGone"],
    ),
    ("races::a_seat_taken_in_a_turn", races::a_seat_taken_in_a_turn, &["UnlinkLost"]),
    ("races::a_turn_in_a_poll", races::a_turn_in_a_poll, &["ExchangeUnlinked"]),
    ("races::a_turn_in_a_snapshot", races::a_turn_in_a_snapshot, &["ScanAgain"]),
    ("races::a_stop_in_a_schedule", races::a_stop_in_a_schedule, &["NoticeRefused"]),
    ("races::a_call_before_a_sleep", races::a_call_before_a_sleep, &["SleepCalledOff"]),
    ("races::a_leader_while_a_turn_ends", races::a_leader_while_a_turn_ends, &["RoleBusy"]),
];

/// Runs them all, and tells which test has reached which event.
pub(crate) fn run() -> ExitCode {
    meanwhile::begin();
    for (name, test, events) in TESTS {
        let before: Vec<u64> = events.iter().map(|event| count(event)).collect();
        test();
        for (event, before) in events.iter().zip(before) {
            assert!(count(event) > before, "{name} does not reach {event}");
            println!("{event} {name}");
        }
    }
    ExitCode::SUCCESS
}

/// How often this process has reached an event.
fn count(event: &str) -> u64 {
    let found = counts().into_iter().find(|(name, _)| *name == event);
    found.unwrap_or_else(|| panic!("there is no event {event}")).1
}

/// Calls `f` until all of the events were reached since this was called.
fn until_reached(events: &[&str], mut f: impl FnMut()) {
    let before: Vec<u64> = events.iter().map(|event| count(event)).collect();
    let missing = || {
        let mut all = events.iter().zip(&before);
        all.find(|(event, before)| count(event) == **before).map(|(event, _)| *event)
    };
    let begin = Instant::now();
    while let Some(event) = missing() {
        assert!(begin.elapsed() < PATIENCE, "{event} was not reached");
        f();
    }
}
