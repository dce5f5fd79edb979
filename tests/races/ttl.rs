//! Races for the entries of a map with a time to live: each value is handed over once (to who
//! removes or replaces it, to who drains, to the callback, or back to who was refused), while
//! threads insert, look, extend, remove and walk, and the engine hands over, stops or is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::random::Random;
use support::scaled;
use support::threads::on_threads;
use tickless::Engine;
use tickless_keyed::{ResetError, TtlMap};

const US: Duration = Duration::from_micros(1);

const HOUR: Duration = Duration::from_secs(3600);

/// What became of one value.
#[derive(Default)]
struct Fate {
    handed_over: AtomicUsize,
    dropped: AtomicUsize,
}

/// A value that knows its key, and until when it may be served at least.
struct Value {
    key: u64,
    number: usize,
    fates: Arc<[Fate]>,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.fates[self.number].dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Hands a value over. Nobody may do so twice.
fn hand_over(key: u64, value: &Value, to: &AtomicUsize) {
    assert_eq!(value.key, key, "it is another key's");
    let before = value.fates[value.number].handed_over.fetch_add(1, Ordering::SeqCst);
    assert_eq!(before, 0, "it was handed over before");
    to.fetch_add(1, Ordering::SeqCst);
}

/// To whom values were handed over, all threads together.
#[derive(Default)]
struct Told {
    made: AtomicUsize,
    replaced: AtomicUsize,
    removed: AtomicUsize,
    drained: AtomicUsize,
    expired: AtomicUsize,
    refused: AtomicUsize,
}

/// A map with few keys, and the books.
struct Rig {
    map: TtlMap<u64, Value>,
    told: Arc<Told>,
    fates: Arc<[Fate]>,
}

fn get(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}

impl Rig {
    fn new(most: usize) -> Rig {
        let engine = Engine::builder().tick(50 * US).shards(2).build().unwrap();
        let told: Arc<Told> = Arc::default();
        let in_callback = told.clone();
        let on_expiry =
            move |key: &u64, value: Arc<Value>| hand_over(*key, &value, &in_callback.expired);
        let map = TtlMap::with_engine(&engine, on_expiry);
        Rig { map, told, fates: (0..most).map(|_| Fate::default()).collect() }
    }

    fn insert(&self, key: u64, ttl: Duration) {
        let number = self.told.made.fetch_add(1, Ordering::SeqCst);
        let value = Value { key, number, fates: self.fates.clone() };
        match self.map.insert(key, value, ttl) {
            Ok(None) => {}
            Ok(Some(replaced)) => hand_over(key, &replaced, &self.told.replaced),
            Err(refused) => hand_over(key, &refused.into_payload(), &self.told.refused),
        }
    }

    fn remove(&self, key: u64) {
        if let Some(value) = self.map.remove(&key) {
            hand_over(key, &value, &self.told.removed);
        }
    }

    fn drain(&self) {
        self.map.drain(|key, value| hand_over(*key, &value, &self.told.drained));
    }

    /// Looks at an entry for which nothing else is done meanwhile that is not counted.
    fn extend(&self, key: u64, ttl: Duration) {
        match self.map.get_and_extend(&key, ttl) {
            Ok(value) => assert_eq!(value.key, key),
            Err(ResetError::Absent | ResetError::Stopped) => {}
            Err(error) => panic!("{error:?}"),
        }
    }

    fn any(&self, random: &mut Random, keys: u64) {
        let (key, ttl) = (random.below(keys), random.below(400) as u32 * US);
        match random.below(12) {
            0..=3 => self.insert(key, ttl),
            4 | 5 => self.remove(key),
            6 | 7 => self.extend(key, ttl),
            8 => self.extend(key, HOUR),
            9 => _ = self.map.get(&key).map(|value| assert_eq!(value.key, key)),
            10 if random.below(20) == 0 => self.drain(),
            10 => _ = self.map.retain(|key, value| value.key == *key),
            _ => {
                assert!(self.map.len() <= keys as usize + 8, "one per key, and one per call");
                _ = (self.map.contains_key(&key), self.map.deadline(&key));
            }
        }
    }

    /// Adds up, now that nothing is left. `lost`: how many were dropped with their tasks.
    fn settle(&self, lost: usize) {
        let Told { made, replaced, removed, drained, expired, refused } = &*self.told;
        assert_eq!(self.map.len(), 0);
        let handed_over = [replaced, removed, drained, expired, refused].map(get).iter().sum();
        let made = get(made);
        assert!((made - lost..=made).contains(&handed_over), "{handed_over} of {made}, {lost}");
        let of = |number: usize| &self.fates[number];
        assert!((0..made).all(|number| get(&of(number).dropped) == 1), "each is dropped once");
    }
}

#[test]
fn everything_at_once_under_few_keys_hands_each_value_over_once() {
    for keys in [1, 3, 200] {
        let rounds = scaled(4_000);
        let rig = Rig::new(3 * rounds as usize);
        let seed = AtomicUsize::new(0);
        on_threads::<3>(|| {
            let mut random = Random::new(seed.fetch_add(1, Ordering::SeqCst) as u64 + keys);
            for _ in 0..rounds {
                rig.any(&mut random, keys);
            }
        });
        rig.drain();
        rig.map.engine().stop().unwrap();
        rig.settle(0);
    }
}

#[test]
fn what_is_over_at_once_expires_once_although_the_reaper_may_come_first() {
    let rounds = scaled(10_000);
    let rig = Rig::new(2 * rounds as usize);
    let next = AtomicUsize::new(0);
    on_threads::<2>(|| {
        for _ in 0..rounds {
            rig.insert(next.fetch_add(1, Ordering::SeqCst) as u64, Duration::ZERO);
        }
    });
    let all = 2 * rounds as usize;
    let end = Instant::now() + Duration::from_secs(60);
    while get(&rig.told.expired) < all {
        assert!(Instant::now() < end, "{} of {all} expired", get(&rig.told.expired));
        thread::yield_now();
    }
    rig.map.engine().stop().unwrap();
    rig.settle(0);
    // One that came before it was in the map came twice, and counts once.
    let stats = rig.map.engine().stats();
    assert_eq!((stats.scheduled, stats.fired), (all as u64, all as u64));
}

#[test]
fn of_many_that_remove_one_entry_and_the_reaper_one_gets_it() {
    for _ in 0..scaled(200) {
        let rig = Rig::new(64);
        for key in 0..64 {
            rig.insert(key, key as u32 % 8 * 50 * US);
        }
        on_threads::<3>(|| (0..64).for_each(|key| rig.remove(key)));
        // Those whose time had come are the callback's.
        let end = Instant::now() + Duration::from_secs(60);
        while !rig.map.is_empty() {
            assert!(Instant::now() < end, "{} never expired", rig.map.len());
            thread::yield_now();
        }
        rig.map.engine().stop().unwrap();
        rig.settle(0);
    }
}

#[test]
fn an_entry_that_is_extended_in_time_is_served_and_does_not_expire() {
    let rounds = scaled(2_000);
    let rig = Rig::new(1);
    rig.insert(7, HOUR);
    let seed = AtomicUsize::new(0);
    on_threads::<3>(|| {
        let mut random = Random::new(seed.fetch_add(1, Ordering::SeqCst) as u64);
        for _ in 0..rounds {
            // Earlier and later, by moves of the word and by timers that are scheduled anew.
            let ttl = HOUR + random.below(1_000_000) as u32 * 100 * US;
            assert_eq!(rig.map.get_and_extend(&7, ttl).map(|value| value.number), Ok(0));
            assert!(rig.map.get(&7).is_some());
        }
    });
    assert_eq!((rig.map.len(), rig.map.engine().len()), (1, 1));
    rig.remove(7);
    rig.settle(0);
    assert!(rig.map.engine().is_empty());
}

#[test]
fn a_stop_that_races_with_everything_loses_no_value_and_doubles_none() {
    for round in 0..scaled(12) {
        let rounds = 1_500;
        let rig = Rig::new(3 * rounds);
        let (seed, let_go) = (AtomicUsize::new(0), AtomicUsize::new(0));
        on_threads::<3>(|| {
            let number = seed.fetch_add(1, Ordering::SeqCst) as u64;
            let mut random = Random::new(number + round * 3);
            for step in 0..rounds {
                rig.any(&mut random, 20);
                if number == 0 && step == 500 {
                    // Every other is run all the same.
                    for (i, task) in rig.map.engine().stop().unwrap().into_iter().enumerate() {
                        if i % 2 == 0 {
                            drop(task);
                            let_go.fetch_add(1, Ordering::SeqCst);
                        } else {
                            task.run();
                        }
                    }
                }
            }
        });
        rig.settle(get(&let_go));
    }
}

#[test]
fn a_map_that_is_dropped_while_entries_expire_drops_the_rest() {
    for _ in 0..scaled(30) {
        let rig = Rig::new(300);
        (0..300).for_each(|key| rig.insert(key, key as u32 * US));
        let Rig { map, told, fates } = rig;
        let engine = map.engine().clone();
        drop(map);
        engine.stop().unwrap();
        let handed_over = fates.iter().filter(|fate| get(&fate.handed_over) == 1).count();
        assert_eq!(handed_over, get(&told.expired));
        assert!(fates.iter().all(|fate| get(&fate.dropped) == 1));
    }
}
