//! Tests of the events that a search reaches rarely or never, each of which has to reach its own.
//!
//! Those of `alone` and `parts` are steps of one thread, or of several that wait for each other.
//! Those of `races` are races of two threads, run until each event was reached.

mod alone;
mod parts;
mod races;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::events::counts;

/// How long a race may take: it is for machines that do not let two threads run at a time.
const PATIENCE: Duration = Duration::from_secs(120);

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
    ("alone::a_crowd_is_filed", alone::a_crowd_is_filed, &["CrowdSeen", "WokeAhead"]),
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
    ("parts::a_sweep_finds_the_shard_taken", parts::a_sweep_finds_the_shard_taken, &["SweepBusy"]),
    ("parts::a_takeover_is_late", parts::a_takeover_is_late, &["TakeOverLate"]),
    ("races::holders_and_the_owner", races::holders_and_the_owner, races::HOLDERS),
    ("races::pollers_and_the_owner", races::pollers_and_the_owner, &["ExchangeUnlinked"]),
    ("races::readers_and_the_owner", races::readers_and_the_owner, &["ScanAgain"]),
    ("races::histories_with_threads", races::histories_with_threads, races::THREADS),
    ("races::a_schedule_and_a_stop", races::a_schedule_and_a_stop, &["NoticeRefused"]),
];

/// Runs them all, and tells which test has reached which event.
pub(crate) fn run() -> ExitCode {
    if counts().is_empty() {
        eprintln!("the engine does not count events: compile it with --cfg events");
        return ExitCode::FAILURE;
    }
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
