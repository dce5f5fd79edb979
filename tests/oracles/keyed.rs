//! Keyed timers against a sorted map: random steps, from outside and from inside tasks, and after
//! each everything that can be observed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::keyed_timers::by_hand;
use support::random::Random;
use support::scaled;
use support::token::Fates;
use tickless::{Engine, Task};
use tickless_keyed::{KeyedTimers, ResetError, Scheduled};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

/// Few enough to meet.
const KEYS: u64 = 12;

/// The most timers of one history, those that tasks make included.
const MOST: usize = 4_000;

/// One timer of the naive ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Naive {
    due: Instant,
    number: usize,
}

/// The real timers and the naive ones, side by side.
#[derive(Clone)]
struct Pair {
    real: KeyedTimers<u64>,
    engine: Engine,
    naive: Arc<Mutex<BTreeMap<u64, Naive>>>,
    random: Arc<Mutex<Random>>,
    fates: Fates,
    made: Arc<Mutex<usize>>,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let (real, engine) = by_hand();
        let random = Arc::new(Mutex::new(Random::new(seed)));
        let fates = Fates::new(MOST);
        Pair { real, engine, naive: Arc::default(), random, fates, made: Arc::default() }
    }

    fn below(&self, n: u64) -> u64 {
        self.random.lock().unwrap().below(n)
    }

    /// Mostly soon, sometimes at once or past, sometimes far.
    fn delay(&self) -> Duration {
        match self.below(8) {
            0 => Duration::ZERO,
            1 => self.below(1_000_000) as u32 * MS,
            _ => self.below(60) as u32 * MS,
        }
    }

    fn naive(&self, key: u64) -> Option<Naive> {
        self.naive.lock().unwrap().get(&key).copied()
    }

    /// A timer's number, and the task that looks whether it is its time, and goes on from there.
    fn task(&self, key: u64, due: Instant) -> (usize, impl FnOnce() + Send + 'static) {
        let number = {
            let mut made = self.made.lock().unwrap();
            *made += 1;
            *made - 1
        };
        let (token, pair) = (self.fates.token(number), self.clone());
        let task = move || {
            token.run();
            let own = Naive { due, number };
            let found = pair.naive.lock().unwrap().remove(&key).expect("it waited");
            assert_eq!(found.number, own.number, "another waits under the key");
            assert_eq!(pair.engine.now(), found.due, "on its tick");
            for _ in 0..pair.below(3) {
                pair.step();
            }
        };
        (number, task)
    }

    fn schedule(&self, key: u64, if_absent: bool) {
        let (now, delay) = (self.engine.now(), self.delay());
        let due = now + delay;
        let before = self.naive(key);
        let (number, task) = self.task(key, due);
        // What is past is due now.
        let at = if delay.is_zero() { now.checked_sub(MS).unwrap_or(now) } else { due };
        let is_in = match (if_absent, self.below(2) == 0) {
            (false, true) => self.replaces(before, self.real.schedule_keyed(key, delay, task)),
            (false, false) => self.replaces(before, self.real.schedule_keyed(key, at, task)),
            (true, true) => self.real.schedule_if_absent(key, delay, task).is_ok(),
            (true, false) => self.real.schedule_if_absent(key, at, task).is_ok(),
        };
        assert_eq!(is_in, !if_absent || before.is_none());
        if is_in {
            self.naive.lock().unwrap().insert(key, Naive { due, number });
            self.is_gone(before);
        } else {
            assert_eq!(self.fates.of(number), (0, 1), "the error is gone by now");
        }
    }

    fn replaces(
        &self,
        before: Option<Naive>,
        answer: Result<Scheduled, tickless::ScheduleError<Task>>,
    ) -> bool {
        assert_eq!(answer.unwrap() == Scheduled::Replaced, before.is_some());
        true
    }

    /// A timer that ended otherwise has dropped its task.
    fn is_gone(&self, timer: Option<Naive>) {
        if let Some(Naive { number, .. }) = timer {
            assert_eq!(self.fates.of(number), (0, 1));
        }
    }

    fn reset(&self, key: u64) {
        let delay = self.delay();
        let due = self.engine.now() + delay;
        let is_moved = if self.below(2) == 0 {
            self.real.reset(&key, delay)
        } else {
            self.real.reset(&key, due)
        };
        let mut naive = self.naive.lock().unwrap();
        let found = naive.get_mut(&key);
        assert_eq!(is_moved, found.as_ref().map(|_| ()).ok_or(ResetError::Absent));
        if let Some(found) = found {
            found.due = due;
        }
    }

    fn retain(&self) {
        let (divisor, rest) = (self.below(5) + 2, self.below(3));
        let keep = |key: &u64| key % divisor != rest;
        let mut gone = Vec::new();
        self.naive.lock().unwrap().retain(|key, timer| {
            let stays = keep(key);
            if !stays {
                gone.push(*timer);
            }
            stays
        });
        assert_eq!(self.real.retain(keep), gone.len());
        gone.into_iter().for_each(|timer| self.is_gone(Some(timer)));
    }

    /// One step, as anybody might do it, also from inside a task.
    fn step(&self) {
        if *self.made.lock().unwrap() + 1 >= MOST {
            return;
        }
        let key = self.below(KEYS);
        match self.below(12) {
            0..=3 => self.schedule(key, false),
            4 | 5 => self.schedule(key, true),
            6 => {
                let before = self.naive.lock().unwrap().remove(&key);
                assert_eq!(self.real.cancel(&key), before.is_some());
                self.is_gone(before);
            }
            7 => {
                let before = self.naive.lock().unwrap().remove(&key);
                let taken = self.real.take(&key);
                assert_eq!(taken.is_some(), before.is_some());
                drop(taken);
                self.is_gone(before);
            }
            8..=10 => self.reset(key),
            _ if self.below(8) == 0 => self.retain(),
            _ => self.look(),
        }
    }

    /// Everything that can be observed.
    fn look(&self) {
        let naive = self.naive.lock().unwrap().clone();
        assert_eq!((self.real.len(), self.real.is_empty()), (naive.len(), naive.is_empty()));
        let mut keys = Vec::new();
        self.real.for_each_key(|key| keys.push(*key));
        keys.sort_unstable();
        assert_eq!(keys, naive.keys().copied().collect::<Vec<_>>());
        for key in 0..KEYS {
            let timer = naive.get(&key);
            assert_eq!(self.real.contains_key(&key), timer.is_some());
            if let Some(timer) = timer.filter(|timer| timer.due > self.engine.now()) {
                assert_eq!(self.real.deadline(&key), Some(timer.due));
            }
        }
    }

    fn advance(&self) {
        let by = if self.below(10) == 0 { 100_000 } else { self.below(40) };
        self.engine.advance(by as u32 * MS).unwrap();
        let (naive, now) = (self.naive.lock().unwrap().clone(), self.engine.now());
        // Those of this very tick may have been made by its tasks.
        assert!(naive.values().all(|timer| timer.due >= now), "one did not run");
        assert_eq!(self.engine.stats().panicked, 0, "a task found something else");
        assert_eq!(self.engine.len(), naive.len(), "the engine has those and no others");
    }
}

#[test]
fn keyed_timers_do_what_a_sorted_map_does() {
    for seed in 0..scaled(30) {
        let pair = Pair::new(seed);
        for _ in 0..400 {
            if pair.below(5) == 0 {
                pair.advance();
            } else {
                pair.step();
            }
            pair.look();
        }
        pair.engine.check().unwrap();
        let left = pair.real.cancel_all();
        assert_eq!(left, pair.naive.lock().unwrap().len());
        let made = *pair.made.lock().unwrap();
        assert!((0..made).all(|number| pair.fates.of(number).1 == 1), "each task was dropped once");
        let ran = (0..made).filter(|number| pair.fates.of(*number).0 == 1).count();
        assert!(ran > 50, "enough has run: {ran} of {made}");
    }
}
