//! What a history of an engine is made of.

use std::time::Duration;

use arbitrary::Arbitrary;
use tickless::Tick;
use tickless::local::Geometry;

use crate::when::When;

/// The geometries that are tried: slots and reach.
pub const SHAPES: [(u32, u32); 9] =
    [(2, 2), (3, 3), (3, 2), (20, 20), (20, 7), (64, 32), (64, 64), (512, 512), (512, 256)];

/// The ticks that are tried, in nanoseconds: from the shortest to one of which a clock sees five
/// million.
pub const TICKS_NS: [u64; 8] =
    [1, 2, 777, 1_000, 1_000_000, 1_000_000_007, 60_000_000_000, 3_600_000_000_000];

/// Not what an input ends with, nor what it begins with.
pub const STORMY: u8 = 90;

/// A history: an engine, the threads that use it, and what they do.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    pub config: Config,
    /// Where the clock stands when the engine is built.
    pub start: At,
    /// How many threads there are besides the one that drives, and how it ends.
    pub helpers: u8,
    pub ops: Vec<Op>,
}

/// How an engine is built. Numbers go round in what they choose from.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Config {
    /// Which of [`SHAPES`].
    pub shape: u8,
    /// Which of [`TICKS_NS`].
    pub tick: u8,
    /// One to three.
    pub shards: u8,
    pub max_pending: Option<u8>,
    /// Whether to listen for earlier timers.
    pub hook: bool,
    /// In place of `shape` and `tick`. (Who draws it does so apart.)
    #[arbitrary(default)]
    pub free: Option<Free>,
}

/// Any geometry and any tick.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Free {
    slots: u16,
    reach: u16,
    tick_ns: u64,
}

/// A time around the start of a tick.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct At {
    pub when: When,
    pub nudge_ns: i8,
}

/// One step. A `u16` picks a handle from those that there are.
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    /// One call by a thread.
    Call {
        thread: u8,
        call: Call,
    },
    /// Timers one after another, so many ticks apart: twice `count`, for more than a batch.
    Burst {
        thread: u8,
        count: u8,
        at: At,
        apart: u8,
        owned: bool,
        task: Task,
    },
    /// Cancels so many, from one on.
    CancelMany {
        thread: u8,
        first: u16,
        count: u8,
    },
    /// More cancelled timers than seats are kept for: once in a history, and only where `rarely`
    /// is [`STORMY`], for it takes long.
    Storm {
        thread: u8,
        at: At,
        rarely: u8,
    },
    /// Moves the clock and nothing else.
    Clock(At),
    /// Moves the clock and fires on the way.
    Advance {
        to: At,
        manner: Manner,
    },
    /// Moves the clock to where the engine wants its next turn, and runs it.
    ToNext,
    /// Moves the clock to just before that: nothing may happen.
    ShortOfNext,
    /// One turn of one shard.
    Turn {
        thread: u8,
        shard: u8,
        at_most: Option<u8>,
        manner: Manner,
    },
    /// Turns of all shards until there is nothing left to do.
    Settle,
    /// A thread ends, and another takes its place.
    Replace {
        thread: u8,
    },
    Stop,
    /// Another engine, to which what was pending moves with what is left of its delay.
    Rebuild {
        config: Config,
        clock: Option<At>,
        keeps: bool,
        stops: bool,
    },
}

/// What a thread, or a task on the reaper's thread, asks of the engine.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Call {
    Schedule {
        at: At,
        by: By,
        owned: bool,
        task: Task,
    },
    Cancel {
        pick: u16,
        way: Way,
    },
    Reset {
        pick: u16,
        at: At,
        by: By,
    },
    /// Drops a handle: the timer fires all the same.
    Detach {
        pick: u16,
    },
    /// Binds the thread to a shard.
    Bind {
        shard: u8,
    },
}

/// How a time is given.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum By {
    Delay,
    Instant,
}

/// How a timer is cancelled.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Way {
    Cancel,
    Take,
    /// By dropping a guard.
    Guard,
}

/// What a payload does when it is handed over.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Task {
    Nothing,
    Schedule {
        at: At,
        owned: bool,
    },
    Cancel {
        pick: u16,
        way: Way,
    },
    Reset {
        pick: u16,
        at: At,
    },
    Detach {
        pick: u16,
    },
    /// Moves the clock on while the turn is under way.
    Clock {
        by_ns: u16,
    },
    Panic,
    /// Tries what a task may not do.
    Meddle,
}

/// How the handler takes its batches.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Manner {
    TakesAll,
    /// Takes so many of each batch and returns.
    Leaves(u8),
    /// Panics so often before it takes anything.
    Panics(u8),
}

// === impl Case ===

impl Case {
    /// Up to three, going round.
    pub fn helpers(&self) -> usize {
        usize::from(self.helpers % 4)
    }

    /// Whether the engine is stopped in the midst of things, and not when all is done.
    pub fn ends_at_once(&self) -> bool {
        self.helpers / 4 % 2 == 1
    }
}

// === impl Config ===

impl Config {
    pub fn shape(self) -> (u32, u32) {
        self.free.map_or(SHAPES[usize::from(self.shape) % SHAPES.len()], Free::shape)
    }

    pub fn tick_ns(self) -> u64 {
        self.free.map_or(TICKS_NS[usize::from(self.tick) % TICKS_NS.len()], Free::tick_ns)
    }

    pub fn shards(self) -> usize {
        usize::from(self.shards % 3) + 1
    }

    pub fn max_pending(self) -> Option<u64> {
        self.max_pending.map(|max| u64::from(max) + 1)
    }
}

// === impl Free ===

impl Free {
    fn shape(self) -> (u32, u32) {
        // Few slots have many rounds: they come up as often as many slots do.
        let most = 2 << (self.slots % 9);
        let slots = 2 + u32::from(self.slots / 9) % most;
        (slots, 2 + u32::from(self.reach) % (slots - 1))
    }

    fn tick_ns(self) -> u64 {
        1 + (self.tick_ns >> (self.tick_ns % 64)) % TICKS_NS[TICKS_NS.len() - 1]
    }
}

// === impl At ===

impl At {
    /// In nanoseconds by a clock that shows `now_ns`; `u64::MAX`: never.
    pub fn resolve_ns(self, geometry: &Geometry, tick_ns: u64, now_ns: u64) -> u64 {
        let tick = self.when.resolve(geometry, Tick::new(now_ns / tick_ns));
        if tick == Tick::NEVER {
            return u64::MAX;
        }
        let start_ns = tick.get().saturating_mul(tick_ns);
        start_ns.saturating_add_signed(i64::from(self.nudge_ns))
    }
}

// === impl Task ===

impl Task {
    /// The call that it makes, if it is one.
    pub fn call(self) -> Option<Call> {
        let (by, task) = (By::Delay, Task::Nothing);
        match self {
            Task::Schedule { at, owned } => Some(Call::Schedule { at, by, owned, task }),
            Task::Cancel { pick, way } => Some(Call::Cancel { pick, way }),
            Task::Reset { pick, at } => Some(Call::Reset { pick, at, by }),
            Task::Detach { pick } => Some(Call::Detach { pick }),
            Task::Nothing | Task::Clock { .. } | Task::Panic | Task::Meddle => None,
        }
    }
}

/// `ns` as a delay; never is the longest.
pub fn delay(ns: u64) -> Duration {
    if ns == u64::MAX { Duration::MAX } else { Duration::from_nanos(ns) }
}
