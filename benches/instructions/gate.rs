//! Instructions and allocations per operation, held below limits.
//!
//! Each bench repeats one operation on a warm engine that is driven by hand, in a process of its
//! own under callgrind. What goes through a whole engine runs once. Unlike times, the counts are
//! the same in every run, so the gate says no to a few per cent; what else the machine does, and
//! how fast it is, does not matter. What they leave out are caches, contention and the cost of
//! atomic exchanges, which the other benches are for.
//!
//! `ci/instructions.sh` runs the gate, which prints the counts per operation. Arguments choose
//! benches whose names contain one of them. The feature `every` has more of them, each of which
//! takes as long to build as it takes to run: an engine of numbers, and Netty's timer.

mod blocks;
mod doors;
#[cfg(feature = "every")]
mod netty;
mod sparse;
mod stage;
mod timers;
mod valgrind;

use std::process::ExitCode;

use doors::{Keyed, Sleeps};
#[cfg(feature = "every")]
use netty::Hashed;
use sparse::Sparse;
use stage::Stage;
use timers::Closures;
#[cfg(feature = "every")]
use timers::Numbers;

/// One operation, repeated if it is short, and what it may cost.
struct Bench {
    /// The operation, and the kind of engine if there are two.
    name: &'static str,
    limits: Limits,
    /// How often it is repeated.
    operations: usize,
    /// Prepares, runs the operations, checks that they were what their name says, and returns how
    /// many blocks they took.
    run: Box<dyn Fn() -> u64>,
}

/// What an operation may cost: instructions of one, and blocks that all of a bench take from the
/// allocator.
///
/// Instructions are what was measured, and 3 % more; whatever makes them fewer lowers the limit.
/// What reads the system's clock is held 3 % above what it takes if it asks the system each time:
/// how often it does depends on the machine's speed.
#[derive(Clone, Copy)]
struct Limits {
    instructions: u64,
    blocks: u64,
}

/// Operations of a bench whose operation is short.
const OPERATIONS: usize = 1_000;

/// The benches of an engine, with both kinds of payloads: the name of the operation; what stands
/// ready before, what is counted, and what holds after; the limits of instructions with closures
/// and with numbers, and of blocks.
macro_rules! operations {
    ($(
        $name:ident: $before:ident, $operation:ident, $after:ident,
        [$closures:literal, $numbers:literal], $blocks:literal;
    )*) => {
        vec![$(
            Bench::new(
                concat!(stringify!($name), " closures"),
                Limits { instructions: $closures, blocks: $blocks },
                Stage::<Closures>::$before,
                Stage::<Closures>::$operation,
                Stage::<Closures>::$after,
            ),
            #[cfg(feature = "every")]
            Bench::new(
                concat!(stringify!($name), " numbers"),
                Limits { instructions: $numbers, blocks: $blocks },
                Stage::<Numbers>::$before,
                Stage::<Numbers>::$operation,
                Stage::<Numbers>::$after,
            ),
        )*]
    };
}

fn benches() -> Vec<Bench> {
    let mut benches = operations! {
        // A timer takes the seat of a cancelled one; every 32 of them, seats come from the depot.
        schedule_seated: with_seats, schedule, all_seated, [161, 158], 0;
        // No seat is free: an entry from the free list is filed.
        schedule_fresh: with_memory, schedule, none_seated, [311, 306], 0;
        // Nothing is free: entries come from the allocator, whose work counts.
        schedule_new_memory: with_nothing, schedule, none_seated, [358, 353], 16;
        // Seats are left one after the other, and go to the depot.
        cancel: with_timers, cancel, all_cancelled, [87, 79], 0;
        // Seats are left one after the other, and for each 32 the depot is full, so that they are
        // let go of; a thousand threads have used the engine, 250 at a time.
        cancel_after_threads: with_threads, cancel, all_let_go, [114, 107], 0;
        // The oldest of a thousand timers makes way for a new one.
        schedule_cancel: with_requests, replace, all_replaced, [231, 219], 0;
        // The same by the system's clock.
        schedule_cancel_system_clock: with_system_clock, replace, all_replaced, [356, 347], 0;
        // One exchange.
        reset_later: with_later_times, reset, all_reset, [125, 125], 0;
        // To a time before the bucket opens: a cancel and a schedule, for which no seat is free.
        reset_earlier: with_earlier_times, reset, all_reset, [913, 899], 0;
        // One turn fires all.
        fire: with_due, turn_once, all_fired, [154, 144], 0;
        // One turn fires all, whose handles are kept.
        fire_owned: with_owned_due, turn_once, all_fired, [154, 143], 0;
        // One turn fires all, and as many are scheduled in the memory that they leave.
        fire_reschedule: with_due, turn_and_schedule, all_rescheduled, [458, 448], 0;
        // One turn moves all a level down.
        cascade: with_coarse, turn_once, all_cascaded, [128, 128], 0;
        // A turn finds nothing to do.
        idle_turn: with_idle, turn_each, none_busy, [468, 486], 0;
    };
    benches.extend(doors());
    benches.extend(ends());
    benches
}

/// Those of the APIs on top of the engine.
fn doors() -> Vec<Bench> {
    vec![
        // The oldest of a thousand timeouts makes way for a new one.
        #[cfg(feature = "every")]
        Bench::new(
            "netty_pair",
            Limits { instructions: 472, blocks: 1_000 },
            Hashed::with_requests,
            Hashed::replace,
            Hashed::all_replaced,
        ),
        // Turns expire all.
        #[cfg(feature = "every")]
        Bench::new(
            "netty_expire",
            Limits { instructions: 400, blocks: 0 },
            Hashed::with_due,
            Hashed::expire,
            Hashed::all_expired,
        ),
        // The oldest of a thousand timers makes way for one under a new key. (A table grows now and
        // then, which depends on how its keys are hashed.)
        Bench::new(
            "keyed_pair",
            Limits { instructions: 1_020, blocks: 1_100 },
            Keyed::with_requests,
            Keyed::replace,
            Keyed::all_replaced,
        ),
        // A sleep is made, polled once and dropped.
        Bench::new(
            "sleep_pair",
            Limits { instructions: 410, blocks: 0 },
            Sleeps::with_seats,
            Sleeps::poll_and_drop,
            Sleeps::all_cancelled,
        ),
        // The three timers of a request: what hyper does for its head (the time by the system's
        // clock, a sleep in a box, a poll, the end), ...
        Bench::new(
            "request_head",
            Limits { instructions: 854, blocks: 1_000 },
            Sleeps::with_heads,
            Sleeps::head,
            Sleeps::all_cancelled,
        ),
        // ... a timeout around a future that waits once ...
        Bench::new(
            "request_timeout",
            Limits { instructions: 432, blocks: 0 },
            Sleeps::with_timeouts,
            Sleeps::limit,
            Sleeps::all_cancelled,
        ),
        // ... and the sleep of a connection, which is moved and polled.
        Bench::new(
            "request_idle",
            Limits { instructions: 281, blocks: 0 },
            Sleeps::with_connections,
            Sleeps::move_each,
            Sleeps::all_moved,
        ),
    ]
}

/// Those that go through a whole engine, one of each.
fn ends() -> Vec<Bench> {
    let one = |name, (instructions, blocks), operation| {
        let limits = Limits { instructions, blocks };
        let bench = Bench::new(name, limits, Sparse::with_one, operation, Sparse::one_found);
        Bench { operations: 1, ..bench }
    };
    let used = |name, (instructions, blocks), operation| {
        let limits = Limits { instructions, blocks };
        Bench::new(name, limits, Sparse::with_fired, operation, Sparse::one_found)
    };
    vec![
        // One timer, where billions of buckets could be, is found, ...
        one("sparse_snapshot", (1_143_000, 135), Sparse::snapshot),
        // ... returned by a stop, ...
        one("sparse_stop", (1_605_000, 138), Sparse::stop),
        // ... or dropped with its engine, and all that this thread keeps of it.
        one("sparse_drop", (2_834_000, 146), Sparse::end),
        // The same after timers that have fired, per bucket that one was in.
        used("used_snapshot", (3_603, 140), Sparse::snapshot),
        used("used_stop", (5_110, 138), Sparse::stop),
    ]
}

impl Bench {
    fn new<S: 'static>(
        name: &'static str,
        limits: Limits,
        before: fn() -> S,
        operation: fn(&mut S),
        after: fn(S),
    ) -> Bench {
        let run = Box::new(move || {
            let mut stage = before();
            let blocks = blocks::taken_by(|| valgrind::counted(&mut || operation(&mut stage)));
            after(stage);
            blocks
        });
        Bench { name, limits, operations: OPERATIONS, run }
    }
}

fn main() -> ExitCode {
    // Cargo says that it is a bench.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let mut benches = benches();
    match &arguments[..] {
        [each, names @ ..] if each == valgrind::EACH => {
            for bench in benches.iter().filter(|bench| names.iter().any(|name| name == bench.name))
            {
                valgrind::run_apart(bench.name, &bench.run);
            }
            return ExitCode::SUCCESS;
        }
        [] => {}
        words => {
            benches.retain(|bench| words.iter().any(|word| bench.name.contains(word.as_str())))
        }
    }
    let names: Vec<&str> = benches.iter().map(|bench| bench.name).collect();
    let counts = valgrind::count(&names);
    println!(
        "{:<38} {:>12} {:>9} {:>7} {:>6}",
        "operation", "instructions", "limit", "blocks", "limit"
    );
    let mut passed = !benches.is_empty();
    for (Bench { name, limits, operations, .. }, counts) in benches.iter().zip(counts) {
        let (instructions, blocks, note) = match counts {
            Ok((instructions, blocks)) => {
                let each = instructions as f64 / *operations as f64;
                let fits = each <= limits.instructions as f64 && blocks <= limits.blocks;
                (format!("{each:.1}"), blocks.to_string(), if fits { "" } else { "  too many" })
            }
            Err(said) => {
                eprintln!("{name}: {said}");
                (String::new(), String::new(), "  not counted")
            }
        };
        passed &= note.is_empty();
        let Limits { instructions: most, blocks: most_blocks } = limits;
        println!("{name:<38} {instructions:>12} {most:>9} {blocks:>7} {most_blocks:>6}{note}");
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
