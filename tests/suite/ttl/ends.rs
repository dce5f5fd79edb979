//! How entries with a time to live end otherwise: with their engine, with the last clone of their
//! map, in callbacks that use the map, and among panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::panicky::{Key, Panics};
use support::planned::{Planned, panic_as_planned, quietly};
use support::token::{Fates, Token};
use tickless::{Batch, Driver, Engine, ManualClock, Task};
use tickless_keyed::{ResetError, TtlMap};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

type Tokens = TtlMap<usize, Token>;

fn engine() -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

/// A map whose callback runs what has expired.
fn tokens(engine: &Engine) -> Tokens {
    TtlMap::with_engine(engine, |_, token: Arc<Token>| token.run())
}

/// Something that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_as_planned();
    }
}

#[track_caller]
fn panics<R>(f: impl FnOnce() -> R) {
    let outcome = catch_unwind(AssertUnwindSafe(f));
    assert!(outcome.err().expect("it did not panic").is::<Planned>());
}

// === stops ===

#[test]
fn an_entry_that_a_stop_returns_stays_until_its_task_is_run_or_dropped() {
    let (engine, fates) = (engine(), Fates::new(4));
    let map = tokens(&engine);
    (0..4).for_each(|key| drop(map.insert(key, fates.token(key), HOUR).unwrap()));
    let mut returned = engine.stop().unwrap();
    assert_eq!((returned.len(), map.len(), engine.len()), (4, 4, 0));
    assert!((0..4).all(|key| map.get(&key).is_some_and(|token| token.number == key)));
    assert_eq!(map.extend(&2, 2 * HOUR), Err(ResetError::Stopped));
    let refused = map.get_and_extend(&2, 2 * HOUR).map(drop);
    assert_eq!((refused, map.contains_key(&2)), (Err(ResetError::Stopped), true));
    drop(map.remove(&0).unwrap());
    assert_eq!(fates.of(0), (0, 1));
    returned.pop().unwrap().run();
    drop(returned);
    assert!(map.is_empty());
    let ran: u32 = (0..4).map(|key| fates.of(key).0).sum();
    assert!(ran <= 1, "one was run, unless it is the one that was removed");
    assert!((0..4).all(|key| fates.of(key).1 == 1), "nothing is left");
}

#[test]
fn a_stopped_or_full_engine_gives_the_value_back_and_the_entry_stays() {
    let (clock, fates) = (ManualClock::new(), Fates::new(4));
    let builder = Engine::builder().shards(1).manual_clock(&clock).max_pending(1);
    let engine = builder.build().unwrap();
    let map = tokens(&engine);
    map.insert(0, fates.token(0), HOUR).unwrap();
    for key in [0, 1] {
        let refused = map.insert(key, fates.token(1), HOUR).err().unwrap();
        assert!(refused.is_full());
        assert_eq!(Arc::into_inner(refused.into_payload()).unwrap().number, 1);
    }
    assert_eq!(map.get_and_extend(&0, MS).map(drop), Err(ResetError::Full), "not earlier");
    assert_eq!(map.get_and_extend(&0, 2 * HOUR).unwrap().number, 0, "but later");
    let returned = engine.stop().unwrap();
    let refused = map.insert(0, fates.token(2), HOUR).err().unwrap();
    assert!(refused.is_stopped());
    drop(refused);
    assert_eq!((map.get(&0).unwrap().number, map.len()), (0, 1));
    assert_eq!((fates.of(0), fates.of(1), fates.of(2)), ((0, 0), (0, 2), (0, 1)));
    drop((map, returned));
    assert_eq!(fates.of(0), (0, 1));
}

#[test]
fn with_the_last_clone_entries_are_dropped_and_the_callback_too_and_nothing_is_handed_over() {
    let (engine, fates, captured) = (engine(), Fates::new(3), Arc::new(()));
    let held = captured.clone();
    let map = TtlMap::with_engine(&engine, move |_: &usize, token: Arc<Token>| {
        let _held = &held;
        token.run();
    });
    (0..3).for_each(|key| drop(map.insert(key, fates.token(key), MS).unwrap()));
    let (clone, kept) = (map.clone(), map.get(&2).unwrap());
    drop(map);
    assert_eq!((clone.len(), engine.len(), Arc::strong_count(&captured)), (3, 3, 2));
    drop(clone);
    assert_eq!((engine.len(), Arc::strong_count(&captured)), (0, 1));
    engine.advance(HOUR).unwrap();
    assert!((0..2).all(|key| fates.of(key) == (0, 1)));
    assert_eq!((kept.number, fates.of(2)), (2, (0, 0)), "somebody still has it");
}

#[test]
fn what_a_stop_has_returned_may_outlive_the_map() {
    let (engine, fates, captured) = (engine(), Fates::new(2), Arc::new(()));
    let held = captured.clone();
    let map = TtlMap::with_engine(&engine, move |_: &usize, token: Arc<Token>| {
        let _held = &held;
        token.run();
    });
    (0..2).for_each(|key| drop(map.insert(key, fates.token(key), MS).unwrap()));
    let mut returned = engine.stop().unwrap();
    drop((map, engine));
    assert!((0..2).all(|key| fates.of(key) == (0, 1)));
    returned.pop().unwrap().run();
    assert_eq!(Arc::strong_count(&captured), 2, "another task may still need it");
    drop(returned);
    assert!((0..2).all(|key| fates.of(key) == (0, 1)));
    assert_eq!(Arc::strong_count(&captured), 1);
}

#[test]
fn a_dispatcher_that_drops_a_task_drops_the_entry() {
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(|_: Batch<'_, Task>| ()).unwrap();
    let fates = Fates::new(1);
    let map = tokens(&engine);
    map.insert(0, fates.token(0), MS).unwrap();
    assert_eq!(engine.advance(MS), Ok(1));
    assert_eq!((fates.of(0), map.len()), ((0, 1), 0));
}

// === between the steps of a call ===

#[test]
fn an_entry_that_is_due_before_it_is_in_the_map_is_handed_over_once() {
    // The hook runs when the entry's timer is on the engine, and not yet under its key.
    let planned: Arc<Mutex<Vec<Tokens>>> = Arc::default();
    let in_hook = planned.clone();
    let hook = move |_| {
        let map = in_hook.lock().unwrap().pop();
        map.into_iter().for_each(|map| _ = map.engine().turn(0));
    };
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.driver(Driver::Caller).on_earlier(hook).build().unwrap();
    let (map, fates) = (tokens(&engine), Fates::new(2));
    map.insert(7, fates.token(0), HOUR).unwrap();
    engine.turn(0).unwrap();
    planned.lock().unwrap().extend([map.clone(), map.clone()]);
    let replaced = map.insert(7, fates.token(1), Duration::ZERO).unwrap().unwrap();
    assert!(planned.lock().unwrap().is_empty());
    assert_eq!((replaced.number, map.len(), fates.of(1)), (0, 1, (0, 0)));
    engine.turn(0).unwrap();
    assert_eq!((map.len(), fates.of(0), fates.of(1)), (0, (0, 0), (1, 1)));
    let stats = engine.stats();
    assert_eq!((stats.scheduled, stats.cancelled, stats.fired), (2, 1, 1));
}

// === from inside ===

#[test]
fn the_callback_and_the_drop_of_a_value_may_use_the_map() {
    /// Inserts anew under its own key when it is dropped.
    struct Phoenix(Arc<Mutex<Option<Lives>>>, u32);
    type Lives = TtlMap<u32, Phoenix>;
    impl Drop for Phoenix {
        fn drop(&mut self) {
            let map = self.0.lock().unwrap().clone();
            if let (Some(map), lives @ 1..) = (map, self.1) {
                assert!(map.get(&7).is_none(), "its key is free");
                drop(map.insert(7, Phoenix(self.0.clone(), lives - 1), MS).unwrap());
                assert!(map.contains_key(&7));
            }
        }
    }
    let (engine, this) = (engine(), Arc::new(Mutex::new(None)));
    let in_callback = this.clone();
    let map: Lives = TtlMap::with_engine(&engine, move |key: &u32, value| {
        let map: Lives = in_callback.lock().unwrap().clone().unwrap();
        assert!(!map.contains_key(key) && map.remove(key).is_none() && map.is_empty());
        drop(value);
        assert_eq!(map.get(key).is_some(), map.len() == 1);
    });
    *this.lock().unwrap() = Some(map.clone());
    map.insert(7, Phoenix(this.clone(), 4), MS).unwrap();
    engine.advance(MS).unwrap();
    assert_eq!(map.get(&7).unwrap().1, 3);
    drop(map.remove(&7).unwrap());
    assert_eq!((map.get(&7).unwrap().1, map.clear()), (2, 1));
    assert_eq!((map.get(&7).unwrap().1, map.retain(|_, value| value.1 > 1)), (1, 1));
    engine.advance(MS).unwrap();
    assert_eq!((map.len(), engine.stats().panicked), (0, 0));
    *this.lock().unwrap() = None;
}

#[test]
fn a_callback_that_drops_the_last_clone_and_panics_with_a_bomb_in_it_panics_once() {
    quietly();
    let (engine, last) = (engine(), Arc::new(Mutex::new(None)));
    let (in_callback, bomb) = (last.clone(), Bomb);
    let map = TtlMap::<u32, &'static str>::with_engine(&engine, move |_, _| {
        let _bomb = &bomb;
        drop(in_callback.lock().unwrap().take());
        panic_as_planned();
    });
    map.insert(1, "due", MS).unwrap();
    map.insert(2, "not yet", HOUR).unwrap();
    *last.lock().unwrap() = Some(map);
    // The ticket is the last to have the table, and drops it while it unwinds.
    engine.advance(MS).unwrap();
    assert_eq!((engine.stats().panicked, engine.len()), (1, 0));
}

// === panics ===

#[test]
fn a_callback_that_panics_is_counted_and_its_entry_is_gone() {
    quietly();
    let (engine, fates) = (engine(), Fates::new(1));
    let map = TtlMap::with_engine(&engine, |_: &usize, _: Arc<Token>| panic_as_planned());
    map.insert(7, fates.token(0), MS).unwrap();
    engine.advance(MS).unwrap();
    assert_eq!((engine.stats().panicked, map.len(), fates.of(0)), (1, 0, (0, 1)));
}

#[test]
fn values_that_panic_when_they_are_dropped_do_so_when_all_is_done() {
    quietly();
    let engine = engine();
    let map = TtlMap::<u32, Bomb>::with_engine(&engine, |_, _| ());
    let fill = || (0..9).for_each(|key| assert!(map.insert(key, Bomb, MS).unwrap().is_none()));
    fill();
    panics(|| map.retain(|key, _| *key < 3));
    assert_eq!((map.len(), engine.len()), (3, 3));
    panics(|| map.clear());
    assert_eq!((map.len(), engine.len()), (0, 0));
    fill();
    let mut taken = Vec::new();
    panics(|| {
        map.drain(|key, bomb| {
            taken.push(*key);
            drop(bomb);
        })
    });
    assert_eq!((taken.len(), map.len(), engine.len()), (9, 0, 0), "each was handed over");
    fill();
    panics(|| drop(map.remove(&1)));
    panics(|| drop(map.insert(2, Bomb, MS)));
    assert_eq!((map.len(), engine.advance(MS)), (8, Ok(8)));
    assert_eq!((engine.stats().panicked, map.len()), (8, 0));
    fill();
    drop(map);
    assert_eq!(engine.len(), 0, "panics of the last drop are swallowed");
}

#[test]
fn a_hash_or_a_comparison_that_panics_changes_nothing() {
    quietly();
    let (engine, fates) = (engine(), Fates::new(4));
    let map = TtlMap::<Key, Token>::with_engine(&engine, |_, token| token.run());
    let flags = Arc::new(Panics::default());
    let key = || Key { number: 7, panics: flags.clone() };
    map.insert(key(), fates.token(0), 5 * MS).unwrap();
    for flag in [&flags.in_hash, &flags.in_eq] {
        let calls: [&dyn Fn(); 6] = [
            &|| drop(map.get(&key())),
            &|| drop(map.get_and_extend(&key(), HOUR)),
            &|| _ = map.extend(&key(), HOUR),
            &|| drop(map.remove(&key())),
            &|| _ = map.contains_key(&key()),
            &|| drop(map.insert(key(), fates.token(1), HOUR)),
        ];
        for call in calls {
            flag.store(1, Ordering::Relaxed);
            panics(call);
            assert_eq!((map.len(), engine.len()), (1, 1));
            assert_eq!(map.get(&key()).unwrap().number, 0);
        }
    }
    assert_eq!(fates.of(1), (0, 2));
    engine.advance(5 * MS).unwrap();
    assert_eq!((fates.of(0), map.len()), ((1, 1), 0));
}

#[test]
fn a_key_that_panics_when_it_is_dropped_keeps_nothing_from_being_done() {
    quietly();
    let (engine, fates) = (engine(), Fates::new(4));
    let map = TtlMap::<Key, Token>::with_engine(&engine, |_, token| token.run());
    let flags = Arc::new(Panics::default());
    let key = |number| Key { number, panics: flags.clone() };
    (0..4).for_each(|n| drop(map.insert(key(n), fates.token(n as usize), MS).unwrap()));
    let with_armed_keys = |f: &dyn Fn()| {
        flags.in_drop.store(1, Ordering::Relaxed);
        f();
        flags.in_drop.store(0, Ordering::Relaxed);
    };
    let (zero, one) = (key(0), key(1));
    with_armed_keys(&|| panics(|| map.remove(&zero)));
    assert_eq!((fates.of(0), map.len(), engine.len()), ((0, 1), 3, 3));
    with_armed_keys(&|| panics(|| map.retain(|key, _| key.number != 1)));
    assert_eq!((map.contains_key(&one), fates.of(1), engine.len()), (false, (0, 1), 2));
    with_armed_keys(&|| panics(|| map.insert(key(2), fates.token(0), HOUR)));
    assert_eq!((fates.of(2), map.len(), engine.len()), ((0, 1), 2, 2));
    with_armed_keys(&|| assert_eq!(engine.advance(MS), Ok(1)));
    assert_eq!((fates.of(3), engine.stats().panicked, map.len()), ((1, 1), 1, 1));
}

// === what `retain` holds ===

#[test]
fn a_value_that_is_removed_while_retain_runs_is_nobody_elses() {
    let map = TtlMap::<u32, &'static str>::with_engine(&engine(), |_, _| ());
    (1..=2).for_each(|key| drop(map.insert(key, "value", HOUR).unwrap()));
    let mut asked = 0;
    let dropped = map.retain(|key, _| {
        asked += 1;
        let other = map.remove(&(3 - key)).expect("it was not asked for");
        assert!(Arc::into_inner(other).is_some(), "nobody else has got it");
        true
    });
    assert_eq!((asked, dropped, map.len()), (1, 0, 1), "what has gone is not asked for");
}

#[test]
fn retain_does_not_abort_if_it_drops_a_key_while_its_closure_panics() {
    quietly();
    let (map, fates) = (TtlMap::<Key, Token>::with_engine(&engine(), |_, _| ()), Fates::new(3));
    let flags = Arc::new(Panics::default());
    let key = |number| Key { number, panics: flags.clone() };
    (0..3).for_each(|n| drop(map.insert(key(n), fates.token(n as usize), HOUR).unwrap()));
    let mut asked = 0;
    panics(|| {
        map.retain(|_, _| {
            asked += 1;
            map.clear();
            // `retain` alone has got the keys by now, and drops them.
            flags.in_drop.store(1, Ordering::Relaxed);
            panic_as_planned()
        })
    });
    assert_eq!((asked, map.len(), flags.in_drop.load(Ordering::Relaxed)), (1, 0, 0));
}
