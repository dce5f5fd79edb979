//! A scope against a map: random steps, and after each everything that can be observed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;

use support::scaled;
use tickless::scope::{Key, Scope};
use tickless::{Batch, Builder, Engine, ManualClock, ResetError};

const MS: Duration = Duration::from_millis(1);

/// One step. Keys are picked among all that there ever were, the latest being the likeliest.
#[derive(Clone, Copy, Debug)]
enum Step {
    Schedule { delay: u32 },
    Cancel { back: usize },
    Take { back: usize },
    Reset { back: usize, delay: u32 },
    Remove { back: usize, cancels: bool },
    CancelAll,
    TakeAll,
    Advance { by: u32 },
}

fn delay() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1..40_u32, 1 => 1..100_000_u32]
}

fn back() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..8_usize, 1 => 0..200_usize]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => delay().prop_map(|delay| Step::Schedule { delay }),
        3 => back().prop_map(|back| Step::Cancel { back }),
        2 => back().prop_map(|back| Step::Take { back }),
        4 => (back(), delay()).prop_map(|(back, delay)| Step::Reset { back, delay }),
        2 => (back(), any::<bool>()).prop_map(|(back, cancels)| Step::Remove { back, cancels }),
        1 => Just(Step::CancelAll),
        1 => Just(Step::TakeAll),
        6 => (0..30_u32).prop_map(|by| Step::Advance { by }),
    ]
}

/// A pending timer: its payload, and when it is due.
type Naive = HashMap<Key, (u64, Instant)>;

struct Pair {
    engine: Engine<u64>,
    real: Scope<u64>,
    naive: Naive,
    /// All keys that there ever were.
    keys: Vec<Key>,
    /// Those that were removed, and fire on their own.
    outside: Vec<Instant>,
}

impl Pair {
    fn new() -> Pair {
        let drop_all = |batch: Batch<'_, u64>| batch.for_each(drop);
        let builder = Builder::new().shards(1).manual_clock(&ManualClock::new());
        let engine = builder.build_with_handler(drop_all).unwrap();
        let (naive, keys, outside) = Default::default();
        Pair { real: engine.scope(), engine, naive, keys, outside }
    }

    fn key(&self, back: usize) -> Option<Key> {
        self.keys.iter().rev().nth(back).copied()
    }

    fn schedule(&mut self, delay: u32) {
        let payload = self.keys.len() as u64;
        let key = self.real.schedule(MS * delay, payload).unwrap();
        let before = self.naive.insert(key, (payload, self.engine.now() + MS * delay));
        assert!(before.is_none() && !self.keys.contains(&key), "a key is used once");
        self.keys.push(key);
    }

    fn reset(&mut self, key: Key, delay: u32) {
        let due = self.engine.now() + MS * delay;
        let waits = self.naive.get_mut(&key).map(|timer| timer.1 = due);
        assert_eq!(self.real.reset(key, MS * delay), waits.ok_or(ResetError::TooLate));
    }

    fn remove(&mut self, key: Key, cancels: bool) {
        let timer = self.naive.remove(&key);
        let handle = self.real.remove(key);
        assert_eq!(handle.is_some(), timer.is_some());
        match handle {
            Some(handle) if cancels => assert_eq!(handle.take(), timer.map(|timer| timer.0)),
            _ => self.outside.extend(timer.map(|timer| timer.1)),
        }
    }

    fn advance(&mut self, by: u32) {
        let now = self.engine.now() + MS * by;
        let before = self.naive.len() + self.outside.len();
        self.naive.retain(|_, timer| timer.1 > now);
        self.outside.retain(|due| *due > now);
        let fired = before - self.naive.len() - self.outside.len();
        assert_eq!(self.engine.advance(MS * by), Ok(fired));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Schedule { delay } => self.schedule(delay),
            Step::Cancel { back } => {
                let Some(key) = self.key(back) else { return };
                assert_eq!(self.real.cancel(key), self.naive.remove(&key).is_some());
            }
            Step::Take { back } => {
                let Some(key) = self.key(back) else { return };
                let payload = self.naive.remove(&key).map(|timer| timer.0);
                assert_eq!(self.real.take(key), payload);
            }
            Step::Reset { back, delay } => {
                let Some(key) = self.key(back) else { return };
                self.reset(key, delay);
            }
            Step::Remove { back, cancels } => {
                let Some(key) = self.key(back) else { return };
                self.remove(key, cancels);
            }
            Step::CancelAll => {
                assert_eq!(self.real.cancel_all(), self.naive.len());
                self.naive.clear();
            }
            Step::TakeAll => {
                let mut taken = self.real.take_all();
                taken.sort_unstable();
                let mut payloads: Vec<u64> = self.naive.drain().map(|(_, timer)| timer.0).collect();
                payloads.sort_unstable();
                assert_eq!(taken, payloads);
            }
            Step::Advance { by } => self.advance(by),
        }
    }

    fn look(&self) {
        assert_eq!(self.real.len(), self.naive.len());
        assert_eq!(self.real.is_empty(), self.naive.is_empty());
        assert_eq!(self.engine.len(), self.naive.len() + self.outside.len());
        for key in &self.keys {
            let due = self.naive.get(key).map(|timer| timer.1);
            assert_eq!(
                (self.real.is_pending(*key), self.real.deadline(*key)),
                (due.is_some(), due)
            );
        }
    }
}

#[test]
fn a_scope_and_a_map_agree() {
    let config = ProptestConfig { cases: scaled(150) as u32, ..ProptestConfig::default() };
    proptest!(config, |(steps in vec(step(), 1..250))| {
        let mut pair = Pair::new();
        for step in steps {
            pair.step(step);
            pair.look();
        }
        let Pair { engine, real, outside, .. } = pair;
        drop(real);
        assert_eq!(engine.len(), outside.len());
    });
}
