//! What keyed timers and the entries of maps allocate, and what is left of those that have ended:
//! nothing.
//!
//! Every block that any thread allocates is counted, so that only one test runs at a time.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use support::alone::alone;
use support::counting::{Live, free_what_waits_for_readers, live, made_here};
use support::keyed_timers::by_hand;
use support::random::Random;
use support::scaled;
use support::threads::on_threads;
use tickless::{Engine, ManualClock};
use tickless_keyed::{KeyedTimers, TtlMap};

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

/// What the timers and their engine may keep when none waits: the table at its smallest, and what
/// each thread has at hand of the engine and of the map's own reclamation.
const KEPT_BYTES: i64 = 400_000;

/// A key that is counted as long as it lives.
struct Counted(u64, Arc<AtomicI64>);

impl Counted {
    fn new(number: u64, alive: &Arc<AtomicI64>) -> Counted {
        alive.fetch_add(1, Ordering::SeqCst);
        Counted(number, alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Counted) -> bool {
        self.0 == other.0
    }
}

impl Eq for Counted {}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl std::borrow::Borrow<u64> for Counted {
    fn borrow(&self) -> &u64 {
        &self.0
    }
}

/// Asserts that so little lives that was not there before.
#[track_caller]
fn assert_freed(before: i64) {
    free_what_waits_for_readers();
    let left = live().bytes - before;
    assert!(left <= KEPT_BYTES, "{left} bytes are left");
}

#[test]
fn a_timer_takes_one_block_and_nothing_else_does() {
    let _alone = alone();
    let (timers, engine) = by_hand();
    for key in 0..1_000_u64 {
        timers.schedule_keyed(key, HOUR, || ()).unwrap();
    }
    // Seats of cancelled timers are there to be taken, and the table has grown.
    assert_eq!(timers.retain(|key| *key >= 100), 100);
    let made = |f: &dyn Fn()| {
        let before = made_here();
        f();
        made_here() - before
    };
    let late = 2 * HOUR;
    assert_eq!(made(&|| drop(timers.schedule_keyed(7, late, || ()))), 1);
    assert_eq!(made(&|| drop(timers.schedule_keyed(7, late, || ()))), 1, "replaced");
    assert_eq!(made(&|| drop(timers.schedule_if_absent(8, late, || ()))), 1);
    assert_eq!(made(&|| drop(timers.schedule_if_absent(8, late, || ()))), 0, "refused");
    let words = [1_u64; 3];
    let task = move || assert_eq!(std::hint::black_box(words)[0], 1);
    assert_eq!(made(&|| drop(timers.schedule_keyed(9, late, task))), 1, "three words");
    let words = [1_u64; 4];
    let task = move || assert_eq!(std::hint::black_box(words)[0], 1);
    assert_eq!(made(&|| drop(timers.schedule_keyed(10, late, task))), 2, "more");
    assert_eq!(made(&|| assert_eq!(timers.reset(&7, 3 * HOUR), Ok(()))), 0);
    // The first timer of such a time gets a block of the engine's, which has room for others.
    assert_eq!(timers.reset(&100, MS), Ok(()));
    assert_eq!(made(&|| assert_eq!(timers.reset(&7, MS), Ok(()))), 0, "earlier");
    assert_eq!(made(&|| assert!(timers.contains_key(&7) && timers.deadline(&7).is_some())), 0);
    assert_eq!(made(&|| assert!(timers.cancel(&7) && timers.take(&8).is_some())), 0);
    assert_eq!(made(&|| assert_eq!(timers.len(), 902)), 0);
    assert_eq!(engine.len(), 902);
}

#[test]
fn an_entry_of_a_map_takes_two_blocks_and_looking_and_extending_take_none() {
    let _alone = alone();
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    let map = TtlMap::<u64, [u64; 4]>::with_engine(&engine, |_, _| ());
    (0..1_000).for_each(|key| drop(map.insert(key, [key; 4], HOUR).unwrap()));
    assert_eq!(map.retain(|key, _| *key < 100), 900);
    let made = |f: &dyn Fn()| {
        let before = made_here();
        f();
        made_here() - before
    };
    let late = 2 * HOUR;
    assert_eq!(made(&|| drop(map.insert(7, [7; 4], late))), 2, "replaced");
    assert_eq!(made(&|| drop(map.insert(700, [7; 4], late))), 2);
    let value = map.get(&7).unwrap();
    assert_eq!(made(&|| drop(map.insert(701, value.clone(), late))), 1, "it has its `Arc`");
    assert_eq!(made(&|| assert_eq!(map.get(&7).unwrap()[0], 7)), 0);
    assert_eq!(made(&|| assert_eq!(map.get_and_extend(&7, 3 * HOUR).unwrap()[0], 7)), 0);
    assert_eq!(made(&|| assert_eq!(map.extend(&8, 3 * HOUR), Ok(()))), 0);
    assert_eq!(map.extend(&50, MS), Ok(()));
    assert_eq!(made(&|| assert_eq!(map.extend(&8, MS), Ok(()))), 0, "earlier");
    assert_eq!(made(&|| assert!(map.contains_key(&7) && map.deadline(&7).is_some())), 0);
    assert_eq!(made(&|| assert_eq!(map.remove(&7).unwrap()[0], 7)), 0);
    assert_eq!((map.len(), engine.len()), (101, 101));
}

#[test]
fn of_entries_that_come_and_go_nothing_is_left() {
    let _alone = alone();
    let alive = Arc::new(AtomicI64::new(0));
    let before = live().bytes;
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    let map = TtlMap::<u64, Counted>::with_engine(&engine, |_, value| drop(value));
    let many = scaled(40_000);
    for key in 0..many {
        let ttl = if key % 4 == 0 { MS } else { HOUR };
        map.insert(key, Counted::new(key, &alive), ttl).unwrap();
    }
    let per_entry = (live().bytes - before) as u64 / many;
    assert!(per_entry < 512, "{per_entry} bytes");
    engine.advance(MS).unwrap();
    (1..many).step_by(4).for_each(|key| assert!(map.remove(&key).is_some()));
    for key in (2..many).step_by(4) {
        map.insert(key, Counted::new(key, &alive), 2 * MS).unwrap().unwrap();
        map.get_and_extend(&key, MS).unwrap();
    }
    engine.advance(MS).unwrap();
    assert_eq!((map.clear() as u64, alive.load(Ordering::SeqCst)), (many / 4, 0));
    // And one after another, in steady use.
    for key in 0..3 * many {
        map.insert(key, Counted::new(key, &alive), HOUR).unwrap();
        assert!(map.remove(&key).is_some() && alive.load(Ordering::SeqCst) == 0);
    }
    drop(map);
    engine.stop().unwrap();
    drop(engine);
    assert_freed(before);
}

#[test]
fn pairs_of_a_new_timer_and_a_cancelled_one_need_one_block_each_for_ever() {
    let _alone = alone();
    let (timers, _engine) = by_hand();
    let pairs = |from: u64, to: u64| {
        for key in from..to {
            timers.schedule_keyed(key, HOUR, || ()).unwrap();
            assert!(key < 500 || timers.cancel(&(key - 500)));
        }
    };
    pairs(0, 5_000);
    let (before, lived) = (made_here(), live().bytes);
    let rounds = scaled(20_000);
    pairs(5_000, 5_000 + rounds);
    // The table may move to another place now and then.
    let made = made_here() - before;
    assert!((rounds..rounds + 10 + rounds / 100).contains(&made), "{made} blocks");
    assert!(live().bytes - lived < KEPT_BYTES);
}

#[test]
fn of_very_many_keys_that_come_and_go_nothing_is_left() {
    let _alone = alone();
    let alive = Arc::new(AtomicI64::new(0));
    let (timers, engine) = by_hand();
    timers.schedule_keyed(Counted::new(0, &alive), MS, || ()).unwrap();
    engine.advance(MS).unwrap();
    let before = live().bytes;
    let many = scaled(60_000);
    // All there at once, then gone in four ways.
    for number in 0..many {
        let delay = if number % 4 == 0 { MS } else { HOUR };
        timers.schedule_keyed(Counted::new(number, &alive), delay, || ()).unwrap();
    }
    assert_eq!((timers.len() as u64, alive.load(Ordering::SeqCst)), (many, many as i64));
    let per_timer = (live().bytes - before) as u64 / many;
    assert!(per_timer < 512, "{per_timer} bytes");
    engine.advance(MS).unwrap();
    for number in (1..many).step_by(4) {
        assert!(timers.cancel(&number));
    }
    for number in (2..many).step_by(4) {
        timers.schedule_keyed(Counted::new(number, &alive), 2 * MS, || ()).unwrap();
    }
    assert_eq!(timers.len() as u64, many / 2);
    engine.advance(2 * MS).unwrap();
    assert_eq!(timers.cancel_all() as u64, many / 4);
    assert_eq!((timers.len(), alive.load(Ordering::SeqCst)), (0, 0), "no key is kept for later");
    // And one after another.
    for number in 0..3 * many {
        timers.schedule_keyed(Counted::new(number, &alive), HOUR, || ()).unwrap();
        assert!(timers.cancel(&number) && alive.load(Ordering::SeqCst) == 0);
    }
    drop(timers);
    engine.stop().unwrap();
    drop(engine);
    assert_freed(before);
}

#[test]
fn the_table_shrinks_as_keys_go() {
    let _alone = alone();
    let (timers, engine) = by_hand();
    timers.schedule_keyed(0, MS, || ()).unwrap();
    engine.advance(MS).unwrap();
    let before = live();
    for key in 0..50_000 {
        timers.schedule_keyed(key, MS, || ()).unwrap();
    }
    // Entries of the engine lie in its depot after that, in blocks of their own.
    let apart_from_entries = |live: Live| live.bytes - live.entry_bytes;
    let most = apart_from_entries(live()) - apart_from_entries(before);
    engine.advance(MS).unwrap();
    assert!(timers.is_empty());
    for key in 0..2_000 {
        timers.schedule_keyed(key, HOUR, || ()).unwrap();
        assert!(timers.cancel(&key));
    }
    free_what_waits_for_readers();
    let left = apart_from_entries(live()) - apart_from_entries(before);
    assert!(left < most / 10, "{left} of {most} bytes");
}

#[test]
fn when_threads_have_raced_no_key_is_left() {
    let _alone = alone();
    let alive = Arc::new(AtomicI64::new(0));
    let before = live().bytes;
    let engine = Engine::builder().tick(MS / 20).shards(2).build().unwrap();
    let timers = KeyedTimers::with_engine(&engine);
    let seed = AtomicU64::new(0);
    on_threads::<3>(|| {
        let mut random = Random::new(seed.fetch_add(1, Ordering::SeqCst));
        for _ in 0..scaled(20_000) {
            let number = random.below(500);
            let delay = random.below(300) as u32 * MS / 100;
            match random.below(4) {
                0 => drop(timers.schedule_keyed(Counted::new(number, &alive), delay, || ())),
                1 => drop(timers.schedule_if_absent(Counted::new(number, &alive), delay, || ())),
                2 => drop(timers.take(&number)),
                _ => drop(timers.reset(&number, delay)),
            }
        }
    });
    timers.cancel_all();
    drop(engine.stop().unwrap());
    assert_eq!((timers.len(), alive.load(Ordering::SeqCst)), (0, 0));
    drop((timers, engine));
    assert_freed(before);
}
