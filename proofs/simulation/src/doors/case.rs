//! What a history of the doors is made of, and how it is drawn.

use crate::draw::Draw;
use models::engine_model::case::{At, Config};

/// A history of one engine, with all doors to it, that is driven by its caller.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) config: Config,
    /// Below so many timers each is filed exactly.
    pub(crate) exact_below: u64,
    /// Whether buckets that a turn does not finish are put behind others.
    pub(crate) in_crowds: bool,
    pub(crate) start: At,
    pub(crate) ops: Vec<Op>,
}

/// One step. A `u16` picks one of the things that there are, a `u8` a key of few.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    // Timers.
    Schedule {
        at: At,
        slack: u16,
        owned: bool,
        deed: Deed,
    },
    Cancel {
        pick: u16,
        takes: bool,
    },
    Reset {
        pick: u16,
        at: At,
        slack: u16,
    },
    Detach {
        pick: u16,
    },
    // Timers that can be waited for, and those of a scope.
    Wait {
        at: At,
        deed: Deed,
    },
    WaitCancel {
        pick: u16,
        waits: bool,
    },
    WaitReset {
        pick: u16,
        at: At,
    },
    Scoped {
        at: At,
        deed: Deed,
    },
    ScopedCancel {
        pick: u16,
    },
    ScopedReset {
        pick: u16,
        at: At,
    },
    /// Drops the scope with its timers, or lets them go.
    ScopeEnds {
        detaches: bool,
    },
    // Futures.
    Sleep {
        at: At,
        is_timeout: bool,
    },
    Poll {
        pick: u16,
        by_another: bool,
    },
    SleepReset {
        pick: u16,
        at: At,
    },
    SleepDrop {
        pick: u16,
    },
    /// The future under a timeout is ready.
    Finish {
        pick: u16,
    },
    Interval {
        at: At,
        period: At,
    },
    Insert {
        at: At,
    },
    Remove {
        pick: u16,
    },
    Move {
        pick: u16,
        at: At,
    },
    PollQueue {
        by_another: bool,
    },
    // What repeats.
    Every {
        first: Option<At>,
        period: u16,
        kind: u8,
        runs: u8,
        deed: Deed,
    },
    EveryCancel {
        pick: u16,
    },
    Heartbeat {
        timeout: u16,
    },
    Beat {
        pick: u16,
    },
    BeatStop {
        pick: u16,
    },
    Retry {
        pause: u16,
        fails: u8,
        attempts: u8,
    },
    RetryCancel {
        pick: u16,
    },
    // Under keys.
    Keyed {
        key: u8,
        at: At,
        if_absent: bool,
        deed: Deed,
    },
    KeyedCancel {
        key: u8,
        takes: bool,
    },
    KeyedReset {
        key: u8,
        at: At,
    },
    KeyedRetain {
        divisor: u8,
    },
    Entry {
        key: u8,
        at: At,
    },
    EntryGet {
        key: u8,
        extends: Option<At>,
    },
    EntryRemove {
        key: u8,
    },
    // Operations.
    Watch {
        keys: [u8; 2],
        at: At,
        allowed: bool,
    },
    Allow {
        pick: u16,
    },
    Check {
        key: u8,
    },
    Decide {
        pick: u16,
        cancels: bool,
    },
    // The hashed wheel.
    Timeout {
        at: At,
        deed: Deed,
    },
    TimeoutCancel {
        pick: u16,
    },
    // Time and turns.
    /// The clock jumps, and no turn is run.
    Jump(At),
    /// The clock goes at a rate of so many 64ths of a tick per look at it, and turns are run.
    Slew {
        rate: u8,
        looks: u8,
    },
    Advance(At),
    ToNext,
    Turn {
        shard: u8,
        at_most: Option<u8>,
    },
    Settle,
    Stop,
}

/// What a task does beside telling that it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    Nothing,
    Schedule {
        at: At,
    },
    Cancel {
        pick: u16,
    },
    Reset {
        pick: u16,
        at: At,
    },
    Key {
        key: u8,
    },
    Beat {
        pick: u16,
    },
    /// The clock goes on meanwhile.
    Clock {
        by_ns: u16,
    },
    Panic,
}

/// How often each group of steps is drawn: timers, waitable and scoped, futures, what repeats,
/// keys, operations, the hashed wheel, time, stops.
const MOODS: [[u64; 9]; 6] = [
    [20, 8, 14, 8, 14, 8, 6, 22, 0],
    // One group at a time, much of it.
    [10, 60, 0, 0, 0, 0, 0, 20, 0],
    [4, 0, 60, 0, 0, 0, 0, 20, 0],
    [4, 0, 0, 60, 0, 0, 0, 25, 0],
    [4, 0, 0, 0, 50, 20, 10, 20, 0],
    // Ends in the middle.
    [20, 8, 14, 8, 14, 8, 6, 12, 1],
];

/// A history of up to so many steps.
pub(crate) fn case(draw: &mut Draw, most: u64) -> Case {
    let start = draw.start();
    let config = Config {
        shape: draw.byte(),
        tick: draw.byte(),
        shards: draw.byte(),
        max_pending: draw.percent(15).then(|| draw.byte()),
        hook: draw.percent(30),
        free: draw.free(),
    };
    let start = draw.nudged(start);
    let mood = MOODS[draw.below(MOODS.len() as u64) as usize];
    let leaps = [3, 30, 200][draw.below(3) as usize];
    let (exact_below, in_crowds) = ([0, 4, 64, 1000][draw.below(4) as usize], draw.percent(30));
    let length = 1 + draw.below(most);
    let ops = (0..length).map(|_| op(draw, &mood, leaps)).collect();
    Case { config, exact_below, in_crowds, start, ops }
}

fn at(draw: &mut Draw) -> At {
    let when = draw.when();
    draw.nudged(when)
}

fn step(draw: &mut Draw, leaps: u64) -> At {
    let when = draw.step(leaps);
    draw.nudged(when)
}

fn slack(draw: &mut Draw) -> u16 {
    if draw.percent(30) { draw.below(200) as u16 } else { 0 }
}

fn key(draw: &mut Draw) -> u8 {
    draw.below(6) as u8
}

fn deed(draw: &mut Draw) -> Deed {
    match draw.weighted(&[20, 2, 2, 2, 2, 1, 1, 1]) {
        0 => Deed::Nothing,
        1 => Deed::Schedule { at: at(draw) },
        2 => Deed::Cancel { pick: draw.word() },
        3 => Deed::Reset { pick: draw.word(), at: at(draw) },
        4 => Deed::Key { key: key(draw) },
        5 => Deed::Beat { pick: draw.word() },
        6 => Deed::Clock { by_ns: draw.word() },
        _ => Deed::Panic,
    }
}

fn op(draw: &mut Draw, mood: &[u64; 9], leaps: u64) -> Op {
    match draw.weighted(mood) {
        0 => timer(draw),
        1 => waitable(draw),
        2 => future(draw),
        3 => repeating(draw),
        4 => keyed(draw),
        5 => operation(draw),
        6 => match draw.weighted(&[2, 1]) {
            0 => Op::Timeout { at: at(draw), deed: deed(draw) },
            _ => Op::TimeoutCancel { pick: draw.word() },
        },
        7 => time(draw, leaps),
        _ => Op::Stop,
    }
}

fn timer(draw: &mut Draw) -> Op {
    let pick = draw.word();
    match draw.weighted(&[16, 8, 8, 1]) {
        0 => {
            let (at, slack, owned) = (at(draw), slack(draw), draw.percent(80));
            Op::Schedule { at, slack, owned, deed: deed(draw) }
        }
        1 => Op::Cancel { pick, takes: draw.percent(30) },
        2 => Op::Reset { pick, at: at(draw), slack: slack(draw) },
        _ => Op::Detach { pick },
    }
}

fn waitable(draw: &mut Draw) -> Op {
    let pick = draw.word();
    match draw.weighted(&[10, 5, 4, 10, 5, 4, 1]) {
        0 => Op::Wait { at: at(draw), deed: deed(draw) },
        1 => Op::WaitCancel { pick, waits: draw.percent(50) },
        2 => Op::WaitReset { pick, at: at(draw) },
        3 => Op::Scoped { at: at(draw), deed: deed(draw) },
        4 => Op::ScopedCancel { pick },
        5 => Op::ScopedReset { pick, at: at(draw) },
        _ => Op::ScopeEnds { detaches: draw.percent(50) },
    }
}

fn future(draw: &mut Draw) -> Op {
    let pick = draw.word();
    match draw.weighted(&[8, 16, 6, 2, 2, 2, 8, 3, 4, 8]) {
        0 => Op::Sleep { at: at(draw), is_timeout: draw.percent(40) },
        1 => Op::Poll { pick, by_another: draw.percent(40) },
        2 => Op::SleepReset { pick, at: at(draw) },
        3 => Op::SleepDrop { pick },
        4 => Op::Finish { pick },
        5 => Op::Interval { at: at(draw), period: at(draw) },
        6 => Op::Insert { at: at(draw) },
        7 => Op::Remove { pick },
        8 => Op::Move { pick, at: at(draw) },
        _ => Op::PollQueue { by_another: draw.percent(30) },
    }
}

fn repeating(draw: &mut Draw) -> Op {
    let pick = draw.word();
    // Often about a tick, sometimes many.
    let period = if draw.percent(70) { draw.below(300) } else { draw.below(1 << 16) } as u16;
    match draw.weighted(&[6, 3, 5, 12, 2, 5, 2]) {
        0 => {
            let first = draw.percent(50).then(|| at(draw));
            let (kind, runs) = (draw.below(3) as u8, 1 + draw.below(8) as u8);
            Op::Every { first, period, kind, runs, deed: deed(draw) }
        }
        1 => Op::EveryCancel { pick },
        2 => Op::Heartbeat { timeout: period },
        3 => Op::Beat { pick },
        4 => Op::BeatStop { pick },
        5 => {
            let (fails, attempts) = (draw.below(5) as u8, 1 + draw.below(5) as u8);
            Op::Retry { pause: period, fails, attempts }
        }
        _ => Op::RetryCancel { pick },
    }
}

fn keyed(draw: &mut Draw) -> Op {
    let key = key(draw);
    match draw.weighted(&[10, 4, 6, 1, 8, 6, 3]) {
        0 => {
            let (at, if_absent) = (at(draw), draw.percent(30));
            Op::Keyed { key, at, if_absent, deed: deed(draw) }
        }
        1 => Op::KeyedCancel { key, takes: draw.percent(30) },
        2 => Op::KeyedReset { key, at: at(draw) },
        3 => Op::KeyedRetain { divisor: 1 + key },
        4 => Op::Entry { key, at: at(draw) },
        5 => Op::EntryGet { key, extends: draw.percent(50).then(|| at(draw)) },
        _ => Op::EntryRemove { key },
    }
}

fn operation(draw: &mut Draw) -> Op {
    match draw.weighted(&[8, 6, 8, 3]) {
        0 => {
            let keys = [key(draw), key(draw)];
            Op::Watch { keys, at: at(draw), allowed: draw.percent(20) }
        }
        1 => Op::Allow { pick: draw.word() },
        2 => Op::Check { key: key(draw) },
        _ => Op::Decide { pick: draw.word(), cancels: draw.percent(50) },
    }
}

fn time(draw: &mut Draw, leaps: u64) -> Op {
    match draw.weighted(&[6, 2, 4, 4, 6, 4]) {
        0 => Op::Jump(step(draw, leaps)),
        1 => Op::Slew { rate: draw.byte(), looks: draw.below(40) as u8 },
        2 => Op::Advance(step(draw, leaps)),
        3 => Op::ToNext,
        4 => {
            let at_most = draw.percent(60).then(|| draw.below(6) as u8);
            Op::Turn { shard: draw.below(3) as u8, at_most }
        }
        _ => Op::Settle,
    }
}
