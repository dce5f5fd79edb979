//! What a seed makes of a history: the engine, the number of threads, what they do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tickless::{Builder, Clock, Driver, Engine, ManualClock};

use crate::random::Random;
use crate::timeline::Timeline;

/// How long a recorder waits for timers that are due, before it says that they are lost.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The settings of one history.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed that all of this is made of.
    pub seed: u64,
    /// The threads that schedule, cancel and reset.
    pub threads: u64,
    /// How many operations each performs.
    pub steps: u64,
    /// The greatest number of timers.
    pub timers: u32,
    /// The tick.
    pub tick: Duration,
    /// The shards.
    pub shards: usize,
    /// The clock, if it is moved by hand; then callers drive the engine.
    pub manual: Option<ManualClock>,
    /// After this, another thread takes a stuck shard over.
    pub takeover: Option<Duration>,
    /// One in so many callbacks does something to other timers. Zero: none.
    pub mischief: u64,
    /// One in so many callbacks takes a long time. Zero: none.
    pub slow: u64,
    /// One in so many callbacks panics. Zero: none.
    pub panics: u64,
    /// A thread stops the engine in the midst of its operations.
    pub stops: bool,
    /// In the end, the recorder waits for the timers that are due.
    pub drains: bool,
    /// How long it waits.
    pub patience: Duration,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn of(seed: u64) -> Scenario {
        let random = &mut Random::new(seed);
        let mut sometimes = |times: u64| if random.once_in(2) { 0 } else { times };
        let (mischief, slow, panics) = (sometimes(2), sometimes(8), sometimes(40));
        let tick = Duration::from_micros([5, 20, 50, 100][random.below(4) as usize]);
        let takeover = match random.below(3) {
            0 => None,
            1 => Some(Duration::from_micros(100)),
            _ => Some(Duration::from_millis(5)),
        };
        Scenario {
            seed,
            threads: 2 + random.below(3),
            steps: 8 + random.below(17),
            timers: 24,
            tick,
            shards: 1 + random.below(3) as usize,
            manual: random.once_in(3).then(ManualClock::new),
            takeover,
            mischief,
            slow,
            panics,
            stops: random.once_in(3),
            drains: random.once_in(2),
            patience: PATIENCE,
        }
    }

    /// A builder with these settings.
    pub fn builder(&self) -> Builder {
        let builder = Engine::builder().tick(self.tick).shards(self.shards);
        let builder = builder.takeover(self.takeover);
        match &self.manual {
            Some(clock) => builder.clock(Clock::manual(clock)).driver(Driver::Caller),
            None => builder,
        }
    }

    /// A delay, which is zero, less than some ticks, or an hour.
    pub fn delay(&self, random: &mut Random) -> Duration {
        let tick_ns = self.tick.as_nanos() as u64;
        match random.below(8) {
            0 => Duration::ZERO,
            1 => Duration::from_secs(3600),
            2 => Duration::from_nanos(random.below(20 * tick_ns)),
            _ => Duration::from_nanos(random.below(3 * tick_ns)),
        }
    }

    /// Moves the manual clock and runs turns of all shards until `is_done`, or until the engine
    /// stops.
    pub fn drive<T: Send>(&self, timeline: &Timeline, engine: &Engine<T>, is_done: &AtomicBool) {
        let random = &mut Random::of_thread(self.seed, u64::MAX);
        // ORDER: Relaxed - the loop looks again and again.
        while !is_done.load(Ordering::Relaxed) {
            timeline.advance(self.tick * random.below(3) as u32);
            for shard in 0..self.shards {
                if timeline.turning(|| engine.turn(shard)).is_err() {
                    return;
                }
            }
            thread::yield_now();
        }
    }

    /// Whether a delay is one that a history waits for.
    pub fn is_short(delay: Duration) -> bool {
        delay < Duration::from_secs(1)
    }
}
