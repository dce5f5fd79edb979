//! Random operations of one thread on an engine whose payloads are in a book.

use std::time::Duration;

use tickless::{Engine, When};
// One that ThreadSanitizer can follow.
use support::account::{Book, Item, Timer};
use support::random::Random;
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

/// Timers that a thread keeps at most.
const MANY: usize = 64;

/// A thread that does anything with timers.
pub(crate) struct Actor {
    pub(crate) book: Book,
    pub(crate) engine: Engine<Item>,
    random: Random,
    /// What delays are drawn around: a tick, and how many buckets there are.
    tick: Duration,
    slots: u32,
    mine: Vec<Timer>,
}

impl Actor {
    pub(crate) fn new(
        book: &Book,
        engine: &Engine<Item>,
        (tick, slots): (Duration, u32),
        seed: u64,
    ) -> Actor {
        let (book, engine, random) = (book.clone(), engine.clone(), Random::new(seed));
        Actor { book, engine, random, tick, slots, mine: Vec::new() }
    }

    /// Any operation that the engine has for timers, on whichever timer. Other threads' are at the
    /// market.
    pub(crate) fn act(&mut self, market: Option<&Mutex<Vec<Timer>>>) {
        let operation = self.random.below(32);
        if operation >= 16 && self.mine.len() < MANY || self.mine.is_empty() {
            return self.schedule();
        }
        let delay = self.delay();
        let at = self.random.below(self.mine.len() as u64) as usize;
        let (random, mine) = (&mut self.random, &mut self.mine);
        match operation {
            0 | 1 => drop(mine.swap_remove(at)),
            2 | 3 => _ = mine.swap_remove(at).take(),
            4 => _ = mine[at].state(),
            5 if let Some(market) = market => {
                let mut market = market.lock().unwrap();
                let place = random.below(1 + market.len() as u64) as usize;
                let timer = mine.swap_remove(at);
                match market.get_mut(place) {
                    Some(theirs) => mine.push(std::mem::replace(theirs, timer)),
                    None => market.push(timer),
                }
            }
            6..=10 => {
                // Later or earlier than it was, or than now.
                if !mine[at].reset(delay) {
                    mine.swap_remove(at);
                }
            }
            _ => _ = mine.swap_remove(at).cancel(),
        }
    }

    /// Lets go of all timers.
    pub(crate) fn give_up(&mut self) -> Vec<Timer> {
        std::mem::take(&mut self.mine)
    }

    fn schedule(&mut self) {
        let delay = self.delay();
        let Actor { book, engine, random, tick, .. } = self;
        let timer = match random.below(8) {
            0 => {
                let _ = book.schedule_detached(engine, delay);
                return;
            }
            1 => {
                let slack = *tick * random.below(100) as u32;
                book.schedule_by(delay, |item| {
                    engine.schedule(When::after(delay).slack(slack), item)
                })
            }
            _ => book.schedule(engine, delay),
        };
        self.mine.extend(timer.ok());
    }

    /// Soon by the system's clock, a few buckets or rounds away by the wheel's, or never.
    fn delay(&mut self) -> Duration {
        let Actor { random, tick, slots, .. } = self;
        match random.below(16) {
            0 => Duration::ZERO,
            1..=3 => Duration::from_nanos(random.below(2_000_000)),
            4..=6 => *tick * random.below(4) as u32,
            7..=9 => *tick * random.below(2 * u64::from(*slots)) as u32,
            10 | 11 => *tick * random.below(u64::from(*slots).pow(2)) as u32,
            12 => Duration::MAX,
            _ => HOUR * random.below(1000) as u32,
        }
    }
}
