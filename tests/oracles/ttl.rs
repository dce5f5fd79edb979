//! A map whose entries have a time to live against a sorted map: random steps, from outside and
//! from inside the callback, and after each everything that can be observed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::random::Random;
use support::scaled;
use support::token::{Fates, Token};
use tickless::{Engine, ManualClock};
use tickless_keyed::{ResetError, TtlMap};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

/// Few enough to meet.
const KEYS: u64 = 12;

/// The most entries of one history, those that the callback makes included.
const MOST: usize = 4_000;

/// One entry of the naive map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Naive {
    due: Instant,
    number: usize,
}

/// What the naive map has, and what it has handed over.
#[derive(Default)]
struct Books {
    entries: BTreeMap<u64, Naive>,
    made: usize,
    expired: usize,
}

/// The real map and the naive one, side by side.
#[derive(Clone)]
struct Pair {
    real: TtlMap<u64, Token>,
    engine: Engine,
    clock: ManualClock,
    books: Arc<Mutex<Books>>,
    random: Arc<Mutex<Random>>,
    fates: Fates,
}

impl Pair {
    /// A pair, and what the callback uses of it, to be emptied in the end.
    fn new(seed: u64) -> (Pair, Arc<Mutex<Option<Pair>>>) {
        let clock = ManualClock::new();
        let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
        let this: Arc<Mutex<Option<Pair>>> = Arc::default();
        let in_callback = this.clone();
        let real = TtlMap::with_engine(&engine, move |key: &u64, token: Arc<Token>| {
            let pair = in_callback.lock().unwrap().clone();
            pair.expect("the history is not over").expire(*key, &token);
        });
        let (random, fates) = (Arc::new(Mutex::new(Random::new(seed))), Fates::new(MOST));
        let pair = Pair { real, engine, clock, books: Arc::default(), random, fates };
        *this.lock().unwrap() = Some(pair.clone());
        (pair, this)
    }

    fn below(&self, n: u64) -> u64 {
        self.random.lock().unwrap().below(n)
    }

    /// Mostly soon, sometimes at once, sometimes far.
    fn ttl(&self) -> Duration {
        match self.below(8) {
            0 => Duration::ZERO,
            1 => self.below(1_000_000) as u32 * MS,
            _ => self.below(60) as u32 * MS,
        }
    }

    /// The naive entry under a key, whether its time has come or not.
    fn any(&self, key: u64) -> Option<Naive> {
        self.books.lock().unwrap().entries.get(&key).copied()
    }

    /// The naive entry under a key, unless its time has come.
    fn living(&self, key: u64) -> Option<Naive> {
        self.any(key).filter(|entry| entry.due > self.engine.now())
    }

    fn expire(&self, key: u64, token: &Token) {
        token.run();
        let entry = {
            let mut books = self.books.lock().unwrap();
            books.expired += 1;
            books.entries.remove(&key).expect("it was in the map")
        };
        assert_eq!(entry.number, token.number, "another is under the key");
        assert!(entry.due <= self.engine.now(), "early");
        for _ in 0..self.below(3) {
            self.step();
        }
    }

    fn insert(&self, key: u64) {
        let (ttl, before) = (self.ttl(), self.any(key));
        let due = self.engine.now() + ttl;
        let number = {
            let mut books = self.books.lock().unwrap();
            books.made += 1;
            books.made - 1
        };
        let token = self.fates.token(number);
        let replaced = if self.below(2) == 0 {
            self.real.insert(key, token, ttl)
        } else {
            self.real.insert(key, token, due)
        };
        let replaced = replaced.unwrap().map(|token| token.number);
        assert_eq!(replaced, before.map(|entry| entry.number));
        self.books.lock().unwrap().entries.insert(key, Naive { due, number });
        self.is_gone(before);
    }

    /// An entry that ended otherwise has dropped its value.
    fn is_gone(&self, entry: Option<Naive>) {
        if let Some(Naive { number, .. }) = entry {
            assert_eq!(self.fates.of(number), (0, 1));
        }
    }

    fn extend(&self, key: u64, gets: bool) {
        let ttl = self.ttl();
        let (due, living) = (self.engine.now() + ttl, self.living(key));
        let expected = living.map(|entry| entry.number).ok_or(ResetError::Absent);
        if gets {
            assert_eq!(self.real.get_and_extend(&key, ttl).map(|token| token.number), expected);
        } else {
            assert_eq!(self.real.extend(&key, due), expected.map(drop));
        }
        if living.is_some() {
            self.books.lock().unwrap().entries.get_mut(&key).unwrap().due = due;
        }
    }

    fn remove(&self, key: u64) {
        let living = self.living(key);
        let removed = self.real.remove(&key);
        let expected = living.map(|entry| entry.number);
        assert_eq!(removed.as_ref().map(|token| token.number), expected);
        drop(removed);
        if living.is_some() {
            self.books.lock().unwrap().entries.remove(&key);
            self.is_gone(living);
        }
    }

    fn retain(&self) {
        let (divisor, rest) = (self.below(5) + 2, self.below(3));
        let keep = |number: usize| number as u64 % divisor != rest;
        let mut gone = Vec::new();
        self.books.lock().unwrap().entries.retain(|_, entry| {
            let stays = keep(entry.number);
            if !stays {
                gone.push(*entry);
            }
            stays
        });
        assert_eq!(self.real.retain(|_, token| keep(token.number)), gone.len());
        gone.into_iter().for_each(|entry| self.is_gone(Some(entry)));
    }

    /// One step, as anybody might do it, also from inside the callback.
    fn step(&self) {
        if self.books.lock().unwrap().made + 1 >= MOST {
            return;
        }
        let key = self.below(KEYS);
        match self.below(12) {
            0..=4 => self.insert(key),
            5 => self.remove(key),
            6 | 7 => self.extend(key, false),
            8..=10 => self.extend(key, true),
            _ if self.below(8) == 0 => self.retain(),
            _ => self.look(),
        }
    }

    /// Everything that can be observed.
    fn look(&self) {
        let naive = self.books.lock().unwrap().entries.clone();
        assert_eq!((self.real.len(), self.real.is_empty()), (naive.len(), naive.is_empty()));
        let mut keys = Vec::new();
        self.real.for_each_key(|key| keys.push(*key));
        keys.sort_unstable();
        assert_eq!(keys, naive.keys().copied().collect::<Vec<_>>());
        for key in 0..KEYS {
            let living = self.living(key);
            let number = self.real.get(&key).map(|token| token.number);
            assert_eq!(number, living.map(|entry| entry.number));
            assert_eq!(self.real.contains_key(&key), living.is_some());
            assert_eq!(self.real.deadline(&key), living.map(|entry| entry.due));
        }
    }

    fn advance(&self) {
        let by = if self.below(10) == 0 { 100_000 } else { self.below(40) };
        if self.below(3) == 0 {
            // The clock alone: what is due waits to be handed over, and is not served meanwhile.
            self.clock.advance(by as u32 * MS);
            return self.look();
        }
        self.engine.advance(by as u32 * MS).unwrap();
        let now = self.engine.now();
        let books = self.books.lock().unwrap();
        // Those of this very tick may have been made by the callback.
        assert!(books.entries.values().all(|entry| entry.due >= now), "one was not handed over");
        assert_eq!(self.engine.stats().panicked, 0, "the callback found something else");
        assert_eq!(self.engine.len(), books.entries.len(), "the engine has those and no others");
    }
}

#[test]
fn a_map_does_what_a_sorted_map_does_and_hands_over_what_expires() {
    for seed in 0..scaled(30) {
        let (pair, this) = Pair::new(seed);
        for _ in 0..400 {
            if pair.below(5) == 0 {
                pair.advance();
            } else {
                pair.step();
            }
            pair.look();
        }
        pair.engine.check().unwrap();
        let mut drained = Vec::new();
        pair.real.drain(|key, token| drained.push((*key, token.number)));
        drained.sort_unstable();
        let books = pair.books.lock().unwrap();
        let left = books.entries.iter().map(|(key, entry)| (*key, entry.number));
        assert_eq!(drained, left.collect::<Vec<_>>());
        assert!((0..books.made).all(|n| pair.fates.of(n).1 == 1), "each was dropped once");
        let ran = (0..books.made).filter(|n| pair.fates.of(*n).0 == 1).count();
        assert_eq!(ran, books.expired);
        assert!(ran > 50, "enough has expired: {ran} of {}", books.made);
        *this.lock().unwrap() = None;
    }
}
