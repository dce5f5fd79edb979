//! Races under keys: each task that was scheduled runs, is cancelled, replaced, taken or returned,
//! once, while threads schedule, move, cancel, fire, stop and drop at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::random::Random;
use support::scaled;
use support::threads::on_threads;
use support::token::Fates;
use tickless::Engine;
use tickless_keyed::{IfAbsentReason, KeyedTimers, ResetError, Scheduled};

const US: Duration = Duration::from_micros(1);

const HOUR: Duration = Duration::from_secs(3600);

/// What callers were told, all threads together.
#[derive(Default)]
struct Told {
    made: AtomicUsize,
    scheduled: AtomicUsize,
    replaced: AtomicUsize,
    cancelled: AtomicUsize,
    taken: AtomicUsize,
    refused: AtomicUsize,
    ran: AtomicUsize,
    /// Whether what the engine has returned is being run by hand.
    may_be_early: AtomicBool,
}

/// Timers under few keys, and the books.
struct Rig {
    timers: KeyedTimers<u64>,
    told: Arc<Told>,
    fates: Fates,
}

fn add(counter: &AtomicUsize) -> usize {
    counter.fetch_add(1, Ordering::SeqCst)
}

fn get(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}

impl Rig {
    fn new(most: usize) -> Rig {
        let engine = Engine::builder().tick(50 * US).shards(2).build().unwrap();
        let timers = KeyedTimers::with_engine(&engine);
        Rig { timers, told: Arc::default(), fates: Fates::new(most) }
    }

    /// A task with a number of its own.
    fn task(&self, not_before: Instant) -> impl FnOnce() + Send + 'static {
        let token = self.fates.token(add(&self.told.made));
        let (told, engine) = (self.told.clone(), self.timers.engine().clone());
        move || {
            let may_be_early = told.may_be_early.load(Ordering::SeqCst);
            assert!(may_be_early || engine.now() >= not_before, "early");
            token.run();
            add(&told.ran);
        }
    }

    fn schedule(&self, key: u64, delay: Duration) {
        let task = self.task(self.timers.engine().now() + delay);
        match self.timers.schedule_keyed(key, delay, task) {
            Ok(Scheduled::New) => drop(add(&self.told.scheduled)),
            Ok(Scheduled::Replaced) => {
                add(&self.told.scheduled);
                add(&self.told.replaced);
            }
            Err(_) => drop(add(&self.told.refused)),
        }
    }

    fn schedule_if_absent(&self, key: u64, delay: Duration) {
        let task = self.task(self.timers.engine().now() + delay);
        match self.timers.schedule_if_absent(key, delay, task) {
            Ok(()) => drop(add(&self.told.scheduled)),
            Err(error) => {
                let expected = [IfAbsentReason::Occupied, IfAbsentReason::Stopped];
                assert!(expected.contains(&error.reason()), "{error}");
                drop(error);
                add(&self.told.refused);
            }
        }
    }

    fn cancel(&self, key: u64) {
        if self.timers.cancel(&key) {
            add(&self.told.cancelled);
        }
    }

    fn take(&self, key: u64) {
        if let Some(task) = self.timers.take(&key) {
            drop(task);
            add(&self.told.taken);
        }
    }

    fn any(&self, random: &mut Random, keys: u64) {
        let (key, delay) = (random.below(keys), random.below(400) as u32 * US);
        match random.below(10) {
            0..=2 => self.schedule(key, delay),
            3 | 4 => self.schedule_if_absent(key, delay),
            5 => self.cancel(key),
            6 => self.take(key),
            7 => self.timers.for_each_key(|key| assert!(*key < keys)),
            // A task checks that it is not early by its first time, so this is later than any.
            8 => match self.timers.reset(&key, HOUR) {
                Ok(()) | Err(ResetError::Absent | ResetError::Stopped) => {}
                Err(error) => panic!("{error:?}"),
            },
            _ => {
                assert!(self.timers.len() <= keys as usize + 8, "one per key, and one per call");
                let _ = (self.timers.contains_key(&key), self.timers.deadline(&key));
            }
        }
    }

    /// Adds up, now that nothing waits.
    fn settle(&self) {
        let Told { made, scheduled, replaced, cancelled, taken, refused, ran, .. } = &*self.told;
        assert_eq!(self.timers.len(), 0);
        let numbers = 0..get(made);
        let sum = |of: fn((u32, u32)) -> u32| -> usize {
            numbers.clone().map(|number| of(self.fates.of(number)) as usize).sum()
        };
        assert!(numbers.clone().all(|number| self.fates.of(number).0 <= 1), "ran twice");
        assert!(numbers.clone().all(|number| self.fates.of(number).1 == 1), "dropped once");
        assert_eq!(sum(|(ran, _)| ran), get(ran));
        assert_eq!(get(made), get(scheduled) + get(refused));
        let ends = get(ran) + get(replaced) + get(cancelled) + get(taken);
        assert_eq!(get(scheduled), ends, "each that was scheduled has ended once");
    }
}

#[test]
fn everything_at_once_under_few_keys_adds_up() {
    for keys in [1, 3, 200] {
        let rounds = scaled(4_000);
        let rig = Rig::new(3 * rounds as usize);
        let seed = AtomicUsize::new(0);
        on_threads::<3>(|| {
            let mut random = Random::new(add(&seed) as u64 + keys);
            for _ in 0..rounds {
                rig.any(&mut random, keys);
            }
        });
        for key in 0..keys {
            rig.cancel(key);
        }
        rig.timers.engine().stop().unwrap();
        rig.settle();
    }
}

#[test]
fn what_is_due_at_once_runs_once_although_the_reaper_may_come_first() {
    let rounds = scaled(10_000);
    let rig = Rig::new(2 * rounds as usize);
    let next = AtomicUsize::new(0);
    on_threads::<2>(|| {
        for _ in 0..rounds {
            let key = add(&next) as u64;
            if key % 2 == 0 {
                rig.schedule(key, Duration::ZERO);
            } else {
                rig.schedule_if_absent(key, Duration::ZERO);
            }
        }
    });
    // All keys are different, so nothing was refused, and nothing can be in the way.
    let end = Instant::now() + Duration::from_secs(60);
    while get(&rig.told.ran) < 2 * rounds as usize {
        assert!(Instant::now() < end, "{} of {} ran", get(&rig.told.ran), 2 * rounds);
        thread::yield_now();
    }
    assert_eq!((get(&rig.told.refused), get(&rig.told.replaced)), (0, 0));
    rig.timers.engine().stop().unwrap();
    rig.settle();
}

#[test]
fn of_many_that_schedule_if_absent_one_gets_the_key() {
    for key in 0..scaled(20) {
        let rig = Rig::new(4);
        on_threads::<4>(|| rig.schedule_if_absent(key, HOUR));
        assert_eq!((get(&rig.told.scheduled), get(&rig.told.refused)), (1, 3));
        assert_eq!((rig.timers.len(), rig.timers.engine().len()), (1, 1));
        rig.cancel(key);
        rig.settle();
    }
}

#[test]
fn of_many_that_replace_one_another_the_last_waits_alone() {
    let rounds = scaled(2_000);
    let rig = Rig::new(4 * rounds as usize);
    on_threads::<4>(|| (0..rounds).for_each(|_| rig.schedule(7, HOUR)));
    assert_eq!(get(&rig.told.replaced), 4 * rounds as usize - 1);
    assert_eq!((rig.timers.len(), rig.timers.engine().len()), (1, 1));
    rig.take(7);
    rig.settle();
}

#[test]
fn many_that_move_one_timer_to_and_fro_move_it_and_nothing_else() {
    let rounds = scaled(2_000);
    let rig = Rig::new(1);
    rig.schedule(7, HOUR);
    let seed = AtomicUsize::new(0);
    on_threads::<3>(|| {
        let mut random = Random::new(add(&seed) as u64);
        for _ in 0..rounds {
            let delay = HOUR + random.below(1_000_000) as u32 * US * 100;
            assert_eq!(rig.timers.reset(&7, delay), Ok(()));
        }
    });
    assert_eq!((rig.timers.len(), rig.timers.engine().len()), (1, 1));
    rig.cancel(7);
    rig.settle();
    assert!(rig.timers.engine().is_empty());
}

#[test]
fn what_fires_while_many_move_it_to_now_and_to_later_runs_once() {
    for _ in 0..scaled(20) {
        let rig = Rig::new(64);
        let now = rig.timers.engine().now();
        for key in 0..64 {
            let task = rig.task(now);
            rig.timers.schedule_keyed(key, HOUR, task).unwrap();
            add(&rig.told.scheduled);
        }
        let seed = AtomicUsize::new(0);
        on_threads::<3>(|| {
            let mut random = Random::new(add(&seed) as u64);
            for _ in 0..500 {
                let (key, later) = (random.below(64), random.below(3));
                let delay = if later == 0 { HOUR } else { random.below(100) as u32 * US };
                let moved = rig.timers.reset(&key, delay);
                assert!(matches!(moved, Ok(()) | Err(ResetError::Absent)));
            }
        });
        // The rest is moved to now, and runs.
        let end = Instant::now() + Duration::from_secs(60);
        while !rig.timers.is_empty() {
            for key in 0..64 {
                let moved = rig.timers.reset(&key, Duration::ZERO);
                assert!(matches!(moved, Ok(()) | Err(ResetError::Absent)));
            }
            assert!(Instant::now() < end, "{} never ran", rig.timers.len());
        }
        rig.timers.engine().stop().unwrap();
        assert_eq!(get(&rig.told.ran), 64);
        rig.settle();
    }
}

#[test]
fn a_stop_that_races_with_everything_loses_nothing_and_doubles_nothing() {
    for round in 0..scaled(12) {
        let rounds = 1_500;
        let rig = Rig::new(3 * rounds);
        let (seed, let_go) = (AtomicUsize::new(0), AtomicUsize::new(0));
        on_threads::<3>(|| {
            let number = add(&seed) as u64;
            let mut random = Random::new(number + round * 3);
            for step in 0..rounds {
                rig.any(&mut random, 20);
                if number == 0 && step == 500 {
                    let returned = rig.timers.engine().stop().unwrap();
                    rig.told.may_be_early.store(true, Ordering::SeqCst);
                    // Every other is run all the same.
                    for (i, task) in returned.into_iter().enumerate() {
                        if i % 2 == 0 {
                            drop(task);
                            add(&let_go);
                        } else {
                            task.run();
                        }
                    }
                }
            }
        });
        let Told { made, scheduled, replaced, cancelled, taken, ran, .. } = &*rig.told;
        let ends = get(ran) + get(replaced) + get(cancelled) + get(taken);
        assert_eq!(rig.timers.len(), 0, "what was let go has freed its key");
        assert!((ends..=ends + get(&let_go)).contains(&get(scheduled)), "each has ended once");
        assert!((0..get(made)).all(|number| rig.fates.of(number).0 <= 1), "ran twice");
        assert!((0..get(made)).all(|number| rig.fates.of(number).1 == 1), "dropped once");
    }
}

#[test]
fn timers_that_are_dropped_while_theirs_fire_take_the_rest_along() {
    for _ in 0..scaled(30) {
        let rig = Rig::new(300);
        for key in 0..300 {
            rig.schedule(key, key as u32 * US);
        }
        let Rig { timers, told, fates } = rig;
        let engine = timers.engine().clone();
        drop(timers);
        engine.stop().unwrap();
        let ran: u32 = (0..300).map(|number| fates.of(number).0).sum();
        assert_eq!(ran as usize, get(&told.ran));
        assert!((0..300).all(|number| fates.of(number).1 == 1));
    }
}
