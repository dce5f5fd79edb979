//! Histories of an engine: draws for `tests/models/src/engine_model`, which has the oracle.
//!
//! Each history has a *mood*, so that what is rare in one is frequent in another: reapers that
//! starve, producers that hold what they have, bursts, storms of cancels, ends in the middle.

use crate::draw::Draw;
use models::engine_model::case::{At, By, Call, Case, Config, Manner, Op, STORMY, Task, Way};

/// Weights of the steps, and how far clocks leap.
struct Mood {
    /// Call, burst, cancel many, storm, clock, advance, to the next, short of it, turn, settle,
    /// replace, stop, rebuild.
    steps: [u64; 13],
    /// One step of the clock in so many goes anywhere.
    leaps: u64,
    /// Schedule, cancel, reset, detach, bind.
    calls: [u64; 5],
    /// Of a hundred turns, so many are bounded.
    bounded: u64,
}

const MOODS: [Mood; 6] = [
    // Anything.
    Mood {
        steps: [500, 10, 10, 1, 60, 60, 40, 20, 80, 20, 10, 2, 4],
        leaps: 13,
        calls: [16, 8, 10, 1, 1],
        bounded: 70,
    },
    // The clock goes, and hardly a turn is run: then all at once, or in tiny turns.
    Mood {
        steps: [400, 20, 10, 0, 200, 4, 4, 0, 60, 8, 10, 1, 2],
        leaps: 30,
        calls: [20, 4, 10, 1, 2],
        bounded: 90,
    },
    // Handles are held for long, the clock stands or crawls.
    Mood {
        steps: [600, 5, 2, 0, 20, 5, 30, 30, 40, 30, 30, 1, 1],
        leaps: 200,
        calls: [20, 2, 20, 0, 3],
        bounded: 30,
    },
    // Cancels, so that seats are taken and the dead pile up.
    Mood {
        steps: [500, 30, 60, 6, 40, 10, 20, 10, 40, 10, 20, 1, 2],
        leaps: 40,
        calls: [16, 16, 2, 2, 2],
        bounded: 60,
    },
    // Ends in the middle, with a backlog.
    Mood {
        steps: [300, 40, 5, 0, 60, 10, 5, 5, 40, 5, 20, 12, 30],
        leaps: 40,
        calls: [20, 5, 8, 2, 2],
        bounded: 80,
    },
    // Decades: leaps, and what fires on the way.
    Mood {
        steps: [300, 5, 5, 0, 30, 120, 80, 20, 30, 10, 5, 1, 2],
        leaps: 3,
        calls: [20, 5, 12, 1, 1],
        bounded: 50,
    },
];

/// A history of up to so many steps.
pub(crate) fn case(draw: &mut Draw, most: u64) -> Case {
    let mood = &MOODS[draw.below(MOODS.len() as u64) as usize];
    let (config, start) = (config(draw), draw.start());
    let length = 1 + draw.below(most);
    Case {
        config,
        start: draw.nudged(start),
        helpers: draw.byte(),
        ops: (0..length).map(|_| op(draw, mood)).collect(),
    }
}

fn config(draw: &mut Draw) -> Config {
    Config {
        shape: draw.byte(),
        tick: draw.byte(),
        shards: draw.byte(),
        max_pending: draw.percent(25).then(|| draw.byte()),
        hook: draw.percent(50),
        free: draw.free(),
    }
}

fn at(draw: &mut Draw) -> At {
    let when = draw.when();
    draw.nudged(when)
}

fn step(draw: &mut Draw, mood: &Mood) -> At {
    let when = draw.step(mood.leaps);
    draw.nudged(when)
}

fn op(draw: &mut Draw, mood: &Mood) -> Op {
    let thread = draw.byte();
    match draw.weighted(&mood.steps) {
        0 => Op::Call { thread, call: call(draw, mood) },
        1 => Op::Burst {
            thread,
            count: draw.byte(),
            at: at(draw),
            apart: draw.below(5) as u8,
            owned: draw.percent(50),
            task: task(draw),
        },
        2 => Op::CancelMany { thread, first: draw.word(), count: draw.byte() },
        3 => Op::Storm { thread, at: at(draw), rarely: STORMY },
        4 => Op::Clock(step(draw, mood)),
        5 => Op::Advance { to: step(draw, mood), manner: manner(draw) },
        6 => Op::ToNext,
        7 => Op::ShortOfNext,
        8 => Op::Turn {
            thread,
            shard: draw.below(4) as u8,
            at_most: draw.percent(mood.bounded).then(|| draw.below(12) as u8),
            manner: manner(draw),
        },
        9 => Op::Settle,
        10 => Op::Replace { thread },
        11 => Op::Stop,
        _ => rebuild(draw),
    }
}

fn rebuild(draw: &mut Draw) -> Op {
    let start = draw.start();
    Op::Rebuild {
        config: config(draw),
        clock: draw.percent(50).then(|| draw.nudged(start)),
        keeps: draw.percent(50),
        stops: draw.percent(80),
    }
}

fn call(draw: &mut Draw, mood: &Mood) -> Call {
    match draw.weighted(&mood.calls) {
        0 => {
            let (at, by, owned) = (at(draw), by(draw), draw.percent(80));
            Call::Schedule { at, by, owned, task: task(draw) }
        }
        1 => Call::Cancel { pick: draw.word(), way: way(draw) },
        2 => Call::Reset { pick: draw.word(), at: at(draw), by: by(draw) },
        3 => Call::Detach { pick: draw.word() },
        _ => Call::Bind { shard: draw.byte() },
    }
}

fn by(draw: &mut Draw) -> By {
    if draw.percent(75) { By::Delay } else { By::Instant }
}

fn way(draw: &mut Draw) -> Way {
    [Way::Cancel, Way::Take, Way::Guard][draw.below(3) as usize]
}

fn task(draw: &mut Draw) -> Task {
    match draw.weighted(&[8, 2, 2, 2, 1, 1, 1, 1]) {
        0 => Task::Nothing,
        1 => Task::Schedule { at: at(draw), owned: draw.percent(50) },
        2 => Task::Cancel { pick: draw.word(), way: way(draw) },
        3 => Task::Reset { pick: draw.word(), at: at(draw) },
        4 => Task::Detach { pick: draw.word() },
        5 => Task::Clock { by_ns: draw.word() },
        6 => Task::Panic,
        _ => Task::Meddle,
    }
}

fn manner(draw: &mut Draw) -> Manner {
    match draw.weighted(&[8, 1, 1]) {
        0 => Manner::TakesAll,
        1 => Manner::Leaves(draw.below(9) as u8),
        _ => Manner::Panics(draw.below(4) as u8),
    }
}
