//! Keys of keyed timers: any type, found by a borrowed form of it, under any hash; and keys that
//! panic, or look around, wherever code of theirs runs.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::bad_hash::Hashes;
use crate::panicky::{Key, Panics};
use support::keyed_timers::by_hand;
use support::planned;
use support::planned::{Planned, quietly};
use support::threads::spawn;
use support::token::{Fates, Token};
use tickless::{Engine, ManualClock};
use tickless_keyed::{IfAbsentReason, KeyedTimers, Scheduled};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

// === keys of every kind ===

#[test]
fn a_key_is_found_by_its_borrowed_form() {
    let (timers, engine) = by_hand::<String>();
    timers.schedule_keyed("a".to_owned(), HOUR, || ()).unwrap();
    assert!(timers.contains_key("a") && !timers.contains_key("b"));
    assert_eq!(timers.deadline("a"), Some(engine.now() + HOUR));
    assert_eq!(timers.reset("a", 2 * HOUR), Ok(()));
    assert_eq!(timers.reset("a", HOUR), Ok(()));
    assert!(timers.take("a").is_some() && !timers.cancel("a"));

    let (timers, _engine) = by_hand::<Vec<u8>>();
    timers.schedule_keyed(vec![1, 2], HOUR, || ()).unwrap();
    timers.schedule_keyed(vec![], HOUR, || ()).unwrap();
    assert!(!timers.cancel(&[1][..]) && timers.cancel(&[1, 2][..]) && timers.cancel(&[][..]));
}

fn all_are_told_apart(hasher: Hashes, keys: &[u64]) {
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    let timers = KeyedTimers::with_hasher(&engine, hasher);
    for (many, &key) in keys.iter().enumerate() {
        assert_eq!(timers.schedule_keyed(key, HOUR, || ()).unwrap(), Scheduled::New);
        assert_eq!((timers.len(), timers.cancel(&u64::MAX)), (many + 1, false));
    }
    for &key in keys {
        assert_eq!(
            timers.schedule_if_absent(key, HOUR, || ()).unwrap_err().reason(),
            IfAbsentReason::Occupied
        );
        assert_eq!(timers.schedule_keyed(key, 2 * HOUR, || ()).unwrap(), Scheduled::Replaced);
        assert_eq!(timers.reset(&key, HOUR), Ok(()));
    }
    let mut seen = Vec::new();
    timers.for_each_key(|key| seen.push(*key));
    assert_eq!(seen.len(), timers.len());
    for (many, key) in keys.iter().step_by(2).enumerate() {
        assert!(timers.cancel(key) && !timers.contains_key(key));
        assert_eq!(timers.len(), seen.len() - many - 1);
    }
    assert_eq!(engine.advance(HOUR).unwrap(), seen.len() / 2);
    assert_eq!((timers.len(), timers.cancel_all(), engine.len()), (0, 0, 0));
}

#[test]
fn keys_that_collide_are_still_told_apart() {
    let keys = Vec::from_iter(0..300);
    [1, 2, 7].iter().for_each(|&few| all_are_told_apart(Hashes::Few(few), &keys));
}

#[test]
fn numbers_may_be_their_own_hash_whichever_bits_of_them_differ() {
    for shift in [0, 8, 32, 54] {
        let keys = Vec::from_iter((0..1000).map(|key| key << shift));
        all_are_told_apart(Hashes::Same, &keys);
    }
}

// === keys that panic ===

/// Two timers under keys that may be told to panic.
struct Rig {
    timers: KeyedTimers<Key>,
    engine: Engine,
    panics: Arc<Panics>,
    fates: Fates,
}

fn run(token: Token) -> impl FnOnce() + Send + 'static {
    move || token.run()
}

impl Rig {
    fn new() -> Rig {
        quietly();
        let (timers, engine) = by_hand();
        let rig = Rig { timers, engine, panics: Arc::default(), fates: Fates::new(4) };
        for number in [0, 1] {
            let task = run(rig.fates.token(number));
            rig.timers.schedule_keyed(rig.key(number as u32), HOUR, task).unwrap();
        }
        rig
    }

    fn key(&self, number: u32) -> Key {
        Key { number, panics: self.panics.clone() }
    }

    /// Runs something that panics as planned, and looks that nothing has changed.
    #[track_caller]
    fn changes_nothing<R>(&self, f: impl FnOnce() -> R) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it did not panic") };
        assert!(panic.is::<Planned>());
        assert_eq!((self.timers.len(), self.engine.len()), (2, 2));
        assert_eq!((self.fates.of(0), self.fates.of(1)), ((0, 0), (0, 0)));
        self.engine.check().unwrap();
    }

    /// Looks that both timers run when they are due, and that nothing keeps a key.
    fn ends_well(self) {
        let Rig { timers, engine, panics, fates } = self;
        engine.advance(HOUR).unwrap();
        assert_eq!((fates.of(0), fates.of(1)), ((1, 1), (1, 1)));
        assert_eq!((timers.len(), engine.len(), engine.stats().panicked), (0, 0, 0));
        assert_eq!(Arc::strong_count(&panics), 1, "no key is left");
    }
}

#[test]
fn a_hash_or_a_comparison_that_panics_changes_nothing() {
    type Count = fn(&Panics) -> &AtomicU32;
    let counts: [Count; 2] = [|panics| &panics.in_hash, |panics| &panics.in_eq];
    let calls: [fn(&Rig); 8] = [
        |rig| drop(rig.timers.schedule_keyed(rig.key(1), MS, run(rig.fates.token(2)))),
        |rig| drop(rig.timers.schedule_if_absent(rig.key(1), MS, run(rig.fates.token(2)))),
        |rig| assert!(rig.timers.cancel(&rig.key(1))),
        |rig| assert!(rig.timers.take(&rig.key(1)).is_some()),
        |rig| assert_eq!(rig.timers.reset(&rig.key(1), 2 * HOUR), Ok(())),
        |rig| assert_eq!(rig.timers.reset(&rig.key(1), MS), Ok(())),
        |rig| assert!(rig.timers.deadline(&rig.key(1)).is_some()),
        |rig| assert!(rig.timers.contains_key(&rig.key(1))),
    ];
    for count in counts {
        for (number, call) in calls.into_iter().enumerate() {
            let rig = Rig::new();
            count(&rig.panics).store(1, Ordering::Relaxed);
            rig.changes_nothing(|| call(&rig));
            let task_went_with_the_panic = u32::from(number < 2);
            assert_eq!(rig.fates.of(2), (0, task_went_with_the_panic));
            rig.ends_well();
        }
    }
}

#[test]
fn a_comparison_that_panics_after_the_timer_was_scheduled_takes_it_along() {
    // What replaces is compared when it is on the engine already.
    let rig = Rig::new();
    rig.panics.in_eq.store(1, Ordering::Relaxed);
    rig.changes_nothing(|| rig.timers.schedule_keyed(rig.key(0), MS, run(rig.fates.token(2))));
    assert_eq!(rig.fates.of(2), (0, 1));
    rig.engine.advance(MS).unwrap();
    assert_eq!(rig.fates.of(2), (0, 1));
    rig.ends_well();
}

#[test]
fn nothing_is_compared_or_hashed_when_a_timer_fires() {
    for is_replaced in [false, true] {
        let rig = Rig::new();
        if is_replaced {
            let task = run(rig.fates.token(2));
            rig.timers.schedule_keyed(rig.key(0), HOUR, task).unwrap();
        }
        rig.panics.in_hash.store(1, Ordering::Relaxed);
        rig.panics.in_eq.store(1, Ordering::Relaxed);
        rig.engine.advance(HOUR).unwrap();
        assert_eq!((rig.timers.len(), rig.engine.stats().panicked), (0, 0));
        assert_eq!(rig.fates.of(if is_replaced { 2 } else { 0 }), (1, 1));
    }
}

#[test]
fn a_key_that_panics_when_it_is_dropped_keeps_nothing_from_being_done() {
    // Cancelled: the caller hears of it, when all is done.
    let rig = Rig::new();
    let key = rig.key(0);
    rig.panics.in_drop.store(1, Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(|| rig.timers.cancel(&key)));
    assert!(outcome.unwrap_err().is::<Planned>());
    assert_eq!((rig.timers.len(), rig.engine.len(), rig.fates.of(0)), (1, 1, (0, 1)));
    // Fired: the engine counts it, and the task has run.
    rig.panics.in_drop.store(1, Ordering::Relaxed);
    rig.engine.advance(HOUR).unwrap();
    assert_eq!((rig.fates.of(1), rig.engine.stats().panicked), ((1, 1), 1));
    assert_eq!((rig.timers.len(), rig.engine.len()), (0, 0));
    drop(key);
    assert_eq!(Arc::strong_count(&rig.panics), 1);
}

#[test]
fn a_key_and_a_task_that_both_panic_are_one_panic_to_the_engine() {
    let rig = Rig::new();
    rig.timers.schedule_keyed(rig.key(2), MS, || planned::panic_as_planned()).unwrap();
    rig.panics.in_drop.store(1, Ordering::Relaxed);
    rig.engine.advance(MS).unwrap();
    assert_eq!((rig.engine.stats().panicked, rig.timers.len()), (1, 2));
    rig.timers.cancel_all();
    assert_eq!(Arc::strong_count(&rig.panics), 1);
}

/// A key that uses the timers when it is dropped.
struct Curious {
    timers: Option<KeyedTimers<Curious>>,
    drops: Arc<AtomicU32>,
}

impl PartialEq for Curious {
    fn eq(&self, _: &Curious) -> bool {
        true
    }
}

impl Eq for Curious {}

impl Hash for Curious {
    fn hash<H: Hasher>(&self, state: &mut H) {
        0_u32.hash(state);
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        if let Some(timers) = self.timers.take() {
            let key = Curious { timers: None, drops: self.drops.clone() };
            let _ = (timers.contains_key(&key), timers.reset(&key, HOUR), timers.cancel(&key));
            self.drops.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_key_may_use_the_timers_when_it_is_dropped() {
    let user = spawn(|| {
        let (timers, engine) = by_hand();
        let drops = Arc::new(AtomicU32::new(0));
        let key = || Curious { timers: Some(timers.clone()), drops: drops.clone() };
        let mut keys = 0;
        let mut made = || {
            keys += 1;
            key()
        };
        timers.schedule_keyed(made(), HOUR, || ()).unwrap();
        assert!(timers.schedule_if_absent(made(), HOUR, || ()).is_err());
        timers.schedule_keyed(made(), HOUR, || ()).unwrap();
        assert!(timers.cancel(&made()));
        timers.schedule_keyed(made(), HOUR, || ()).unwrap();
        timers.cancel_all();
        timers.schedule_keyed(made(), HOUR, || ()).unwrap();
        engine.advance(HOUR).unwrap();
        assert_eq!((timers.len(), engine.stats().panicked), (0, 0));
        assert_eq!(drops.load(Ordering::Relaxed), keys);
    });
    user.join().unwrap();
}
