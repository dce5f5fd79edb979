//! Instructions and allocations per operation, held below limits.
//!
//! Each bench repeats one operation on a warm engine that is driven by hand, under callgrind and
//! under DHAT. Unlike times, their counts are the same in every run, so the gate says no to a few
//! per cent; what else the machine does, and how fast it is, does not matter. What they leave out
//! are caches, contention and the cost of atomic exchanges, which the other benches are for.
//!
//! `ci/instructions.sh` runs the gate and prints the counts per operation.

#![expect(missing_docs, reason = "it is in what gungraun's macros generate")]

#[path = "../common/delays.rs"]
mod delays;
mod doors;
mod netty;
mod stage;
mod timers;

use gungraun::{
    Callgrind, Dhat, DhatMetric, EventKind, LibraryBenchmarkConfig, library_benchmark,
    library_benchmark_group, main,
};

use doors::{Keyed, Sleeps};
use netty::Hashed;
use stage::Stage;
use timers::{Closures, Numbers, Timers};

/// What each operation may cost: instructions of one, for closures and for numbers, and blocks
/// that all of a bench take from the allocator.
///
/// Instructions are what was measured, and 3 % more; whatever makes them fewer lowers the limit.
/// What reads the system's clock is held 4 % above the most that was seen: how often that clock is
/// checked depends on the time that passes.
const LIMITS: [(&str, [u64; 2], u64); 14] = [
    ("schedule_seated", [159, 158], 0),
    ("schedule_fresh", [312, 308], 0),
    ("schedule_new_memory", [358, 354], 16),
    ("cancel", [89, 78], 0),
    ("cancel_after_threads", [424, 413], 17),
    ("schedule_cancel", [235, 221], 0),
    ("schedule_cancel_system_clock", [237, 231], 0),
    ("reset_later", [128, 128], 0),
    ("reset_earlier", [905, 893], 0),
    ("fire", [158, 146], 0),
    ("fire_owned", [153, 141], 0),
    ("fire_reschedule", [457, 441], 0),
    ("cascade", [142, 142], 0),
    ("idle_turn", [477, 504], 0),
];

/// What operations of the hashed wheel may cost: as above, instructions of one and blocks of all.
const HASHED_PAIR: (u64, u64) = (475, 1_000);
const HASHED_EXPIRE: (u64, u64) = (408, 0);

/// The same for timers under keys, and for a sleep that is made, polled once and dropped. (A table
/// grows now and then, which depends on how its keys are hashed.)
const KEYED_PAIR: (u64, u64) = (1_140, 1_100);
const SLEEP_PAIR: (u64, u64) = (336, 0);

/// Columns of the table.
const CLOSURES: usize = 0;
const NUMBERS: usize = 1;

/// Operations of a bench.
const OPERATIONS: usize = 1_000;

/// Both tools, with the limits of an operation.
fn within(operation: &str, engine: usize) -> LibraryBenchmarkConfig {
    let row = LIMITS.iter().find(|(name, ..)| *name == operation);
    let (_, instructions, blocks) = row.expect("each operation has its limits");
    limited((instructions[engine], *blocks))
}

/// Both tools, with such limits.
fn limited((instructions, blocks): (u64, u64)) -> LibraryBenchmarkConfig {
    let instructions = instructions * OPERATIONS as u64;
    let mut callgrind = Callgrind::with_args(["--cache-sim=no"]);
    callgrind.format([EventKind::Ir]).hard_limits([(EventKind::Ir, instructions)]);
    // An allocation counts where the operation is found among its callers, inlined ones included.
    let mut dhat = Dhat::with_args(["--num-callers=200"]);
    dhat.format([DhatMetric::TotalBlocks]).hard_limits([(DhatMetric::TotalBlocks, blocks)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind).tool(dhat);
    config
}

/// A bench for each operation: what stands ready before, what is counted, and what holds after.
macro_rules! operations {
    ($($(#[doc = $_:literal])* $name:ident: $before:ident, $operation:ident, $after:ident;)*) => {
        $(
            #[library_benchmark(teardown = Stage::$after)]
            #[bench::closures(
                setup = Stage::<Closures>::$before,
                config = within(stringify!($name), CLOSURES)
            )]
            #[bench::numbers(
                setup = Stage::<Numbers>::$before,
                config = within(stringify!($name), NUMBERS)
            )]
            fn $name<E: Timers>(mut stage: Stage<E>) -> Stage<E> {
                stage.$operation();
                stage
            }
        )*
        library_benchmark_group!(name = operations, benchmarks = [$($name),*]);
    };
}

operations! {
    /// A timer takes the seat of a cancelled one; every 32 of them, seats come from the depot.
    schedule_seated: with_seats, schedule, all_seated;
    /// No seat is free: an entry from the free list is filed.
    schedule_fresh: with_memory, schedule, none_seated;
    /// Nothing is free: entries come from the allocator, whose work counts.
    schedule_new_memory: with_nothing, schedule, none_seated;
    /// Seats are left one after the other, and go to the depot.
    cancel: with_timers, cancel, all_cancelled;
    /// Seats are left one after the other, and for each 32 the depot is full, so that they are let
    /// go of; a thousand threads have used the engine.
    cancel_after_threads: with_threads, cancel, all_let_go;
    /// The oldest of a thousand timers makes way for a new one.
    schedule_cancel: with_requests, replace, all_replaced;
    /// The same by the system's clock.
    schedule_cancel_system_clock: with_system_clock, replace, all_replaced;
    /// One exchange.
    reset_later: with_later_times, reset, all_reset;
    /// To a time before the bucket opens: a cancel and a schedule, for which no seat is free.
    reset_earlier: with_earlier_times, reset, all_reset;
    /// One turn fires all.
    fire: with_due, turn_once, all_fired;
    /// One turn fires all, whose handles are kept.
    fire_owned: with_owned_due, turn_once, all_fired;
    /// One turn fires all, and as many are scheduled in the memory that they leave.
    fire_reschedule: with_due, turn_and_schedule, all_rescheduled;
    /// One turn moves all a level down.
    cascade: with_coarse, turn_once, all_cascaded;
    /// A turn finds nothing to do.
    idle_turn: with_idle, turn_each, none_busy;
}

// The oldest of a thousand timeouts makes way for a new one. (The macro takes no docs.)
#[library_benchmark(teardown = Hashed::all_replaced)]
#[bench::shared(setup = Hashed::with_requests, config = limited(HASHED_PAIR))]
fn hashed_pair(mut hashed: Hashed) -> Hashed {
    hashed.replace();
    hashed
}

// Turns expire all.
#[library_benchmark(teardown = Hashed::all_expired)]
#[bench::shared(setup = Hashed::with_due, config = limited(HASHED_EXPIRE))]
fn hashed_expire(mut hashed: Hashed) -> Hashed {
    hashed.expire();
    hashed
}

library_benchmark_group!(name = hashed_wheel, benchmarks = [hashed_pair, hashed_expire]);

// The oldest of a thousand timers makes way for one under a new key.
#[library_benchmark(teardown = Keyed::all_replaced)]
#[bench::shared(setup = Keyed::with_requests, config = limited(KEYED_PAIR))]
fn keyed_pair(mut keyed: Keyed) -> Keyed {
    keyed.replace();
    keyed
}

// A sleep is made, polled once and dropped.
#[library_benchmark(teardown = Sleeps::all_cancelled)]
#[bench::shared(setup = Sleeps::with_seats, config = limited(SLEEP_PAIR))]
fn sleep_pair(mut sleeps: Sleeps) -> Sleeps {
    sleeps.poll_and_drop();
    sleeps
}

library_benchmark_group!(name = other_doors, benchmarks = [keyed_pair, sleep_pair]);

main!(library_benchmark_groups = operations, hashed_wheel, other_doors);
