//! A map whose entries have a time to live, step by step, on a clock that is moved by hand.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use super::by_hand::{TtlMaps, by_hand};
use tickless::{Engine, ManualClock, When};
use tickless_keyed::{KeyedTimers, ResetError, TtlMap};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_entry_is_served_until_its_time_and_then_handed_over_once() {
    let TtlMaps { map, engine, expired, .. } = by_hand();
    assert_eq!(map.insert(7, "seven", 10 * MS).unwrap(), None);
    engine.advance(9 * MS).unwrap();
    assert!(map.contains_key(&7) && map.get(&7).as_deref() == Some(&"seven"));
    assert_eq!(map.deadline(&7), Some(engine.now() + MS));
    engine.advance(MS).unwrap();
    assert_eq!(expired.take(), [(7, "seven")]);
    assert_eq!((map.get(&7), map.contains_key(&7), map.len()), (None, false, 0));
    assert_eq!((map.remove(&7), map.deadline(&7)), (None, None));
    engine.advance(HOUR).unwrap();
    assert_eq!((expired.take(), engine.len()), (vec![], 0));
}

#[test]
fn what_is_removed_or_replaced_is_handed_over_there_and_never_expires() {
    let TtlMaps { map, engine, expired, .. } = by_hand();
    map.insert(1, "removed", 5 * MS).unwrap();
    map.insert(2, "replaced", 5 * MS).unwrap();
    assert_eq!(map.remove(&1).as_deref(), Some(&"removed"));
    assert_eq!(map.remove(&1), None);
    assert_eq!(map.insert(2, "new", 9 * MS).unwrap().as_deref(), Some(&"replaced"));
    assert_eq!((map.len(), engine.len()), (1, 1));
    engine.advance(8 * MS).unwrap();
    assert_eq!((expired.take(), map.get(&2).as_deref()), (vec![], Some(&"new")));
    engine.advance(MS).unwrap();
    assert_eq!(expired.take(), [(2, "new")]);
}

#[test]
fn an_entry_whose_time_has_come_is_not_served_although_the_engine_is_late() {
    let TtlMaps { map, engine, expired, clock } = by_hand();
    for key in 0..4 {
        map.insert(key, "stale", 10 * MS).unwrap();
    }
    // The clock moves, and no turn is run.
    clock.advance(10 * MS - Duration::from_nanos(1));
    assert!(map.get(&0).is_some(), "a nanosecond is left");
    clock.advance(Duration::from_nanos(1));
    assert_eq!((map.get(&0), map.contains_key(&0), map.deadline(&0)), (None, false, None));
    assert_eq!(map.get_and_extend(&1, HOUR), Err(ResetError::Absent));
    assert_eq!(map.extend(&1, HOUR), Err(ResetError::Absent));
    assert_eq!(map.remove(&2), None);
    assert_eq!((map.len(), engine.len()), (4, 4), "all wait to be handed over");
    // Who inserts has to take it, because nobody else can any more.
    assert_eq!(map.insert(3, "fresh", 10 * MS).unwrap().as_deref(), Some(&"stale"));
    engine.advance(Duration::ZERO).unwrap();
    let mut got = expired.take();
    got.sort_unstable();
    assert_eq!(got, [(0, "stale"), (1, "stale"), (2, "stale")]);
    assert_eq!((map.len(), map.get(&3).as_deref()), (1, Some(&"fresh")));
}

#[test]
fn a_look_that_extends_moves_the_time_either_way_and_a_plain_look_does_not() {
    let TtlMaps { map, engine, expired, .. } = by_hand();
    map.insert(1, "extended", 10 * MS).unwrap();
    map.insert(2, "looked at", 10 * MS).unwrap();
    map.insert(3, "shortened", HOUR).unwrap();
    engine.advance(5 * MS).unwrap();
    assert_eq!(map.get_and_extend(&1, 10 * MS).as_deref(), Ok(&"extended"));
    assert_eq!(map.get(&2).as_deref(), Some(&"looked at"));
    assert_eq!(map.get_and_extend(&3, 2 * MS).as_deref(), Ok(&"shortened"));
    assert_eq!(map.get_and_extend(&4, HOUR), Err(ResetError::Absent));
    engine.advance(5 * MS).unwrap();
    assert_eq!(expired.take(), [(3, "shortened"), (2, "looked at")]);
    assert_eq!((map.extend(&1, HOUR), engine.len()), (Ok(()), 1));
    engine.advance(HOUR - MS).unwrap();
    assert_eq!(expired.take(), []);
    engine.advance(MS).unwrap();
    assert_eq!(expired.take(), [(1, "extended")]);
}

#[test]
fn a_value_that_was_handed_out_outlives_its_entry() {
    let TtlMaps { map, engine, expired, .. } = by_hand();
    map.insert(1, "kept", MS).unwrap();
    let kept = map.get(&1).unwrap();
    engine.advance(MS).unwrap();
    assert_eq!((*kept, expired.take()), ("kept", vec![(1, "kept")]));
    assert_eq!(Arc::into_inner(kept), Some("kept"), "nobody else has it");
    // An `Arc` that the caller has goes in as it is.
    let own = Arc::new("own");
    map.insert(2, own.clone(), MS).unwrap();
    assert!(Arc::ptr_eq(&map.get(&2).unwrap(), &own));
    assert!(Arc::ptr_eq(&map.remove(&2).unwrap(), &own));
}

#[test]
fn a_time_to_live_may_be_nothing_past_endless_or_have_a_slack() {
    let TtlMaps { map, engine, expired, .. } = by_hand();
    engine.advance(3 * MS).unwrap();
    map.insert(1, "nothing", Duration::ZERO).unwrap();
    map.insert(2, "past", engine.now() - MS).unwrap();
    assert_eq!((map.get(&1), map.get(&2), map.len()), (None, None, 2));
    engine.advance(Duration::ZERO).unwrap();
    assert_eq!(expired.take().len(), 2);
    // In the middle of a tick both live to its end, as each entry does.
    engine.advance(MS / 2).unwrap();
    map.insert(1, "nothing", Duration::ZERO).unwrap();
    map.insert(2, "just past", engine.now() - MS / 4).unwrap();
    assert!(map.contains_key(&1) && map.contains_key(&2));
    engine.advance(MS / 2).unwrap();
    assert_eq!((expired.take().len(), map.len()), (2, 0));
    map.insert(3, "endless", Duration::MAX).unwrap();
    map.insert(4, "slack", When::after(100 * MS).slack(50 * MS)).unwrap();
    assert_eq!((map.deadline(&3), map.get(&3).as_deref()), (None, Some(&"endless")));
    let until = map.deadline(&4).unwrap() - engine.now();
    assert!((100 * MS..=150 * MS).contains(&until), "{until:?}");
    engine.advance(until - MS).unwrap();
    assert_eq!((map.get(&4).as_deref(), expired.take()), (Some(&"slack"), vec![]));
    engine.advance(MS).unwrap();
    assert_eq!(expired.take(), [(4, "slack")]);
    engine.advance(1_000_000 * HOUR).unwrap();
    assert_eq!(map.remove(&3).as_deref(), Some(&"endless"));
}

#[test]
fn entries_are_walked_retained_cleared_and_drained_without_the_callback() {
    let TtlMaps { map, engine, expired, .. } = by_hand();
    for key in 0..10 {
        map.insert(key, if key % 2 == 0 { "even" } else { "odd" }, MS).unwrap();
    }
    let mut keys = Vec::new();
    map.for_each_key(|key| keys.push(*key));
    keys.sort_unstable();
    assert_eq!(keys, Vec::from_iter(0..10));
    assert_eq!(map.retain(|key, value| *value == "even" && *key < 8), 6);
    assert_eq!((map.len(), engine.len()), (4, 4));
    let mut drained = Vec::new();
    // The map may be used meanwhile.
    let take = |key: &u32, value: Arc<&'static str>| {
        assert!(map.get(key).is_none());
        drained.push((*key, Arc::into_inner(value).unwrap()));
    };
    assert_eq!(map.drain(take), 4);
    drained.sort_unstable();
    assert_eq!(drained, [(0, "even"), (2, "even"), (4, "even"), (6, "even")]);
    map.insert(1, "cleared", MS).unwrap();
    assert_eq!((map.clear(), map.clear(), map.is_empty()), (1, 0, true));
    engine.advance(HOUR).unwrap();
    assert_eq!((expired.take(), engine.len()), (vec![], 0));
}

#[test]
fn values_need_no_size_keys_may_be_borrowed_and_hashers_chosen() {
    type Fixed = BuildHasherDefault<DefaultHasher>;
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    let map = TtlMap::<String, str, Fixed>::with_hasher(&engine, Fixed::default(), |_, _| ());
    map.insert("key".to_owned(), "value", MS).unwrap();
    map.insert("other".to_owned(), String::from("owned"), MS).unwrap();
    assert_eq!(map.get("key").as_deref(), Some("value"));
    assert_eq!(map.get_and_extend("other", 2 * MS).as_deref(), Ok("owned"));
    assert_eq!(format!("{map:?}"), "TtlMap { len: 2, .. }");
    let clone = map.clone();
    assert_eq!(clone.remove("key").as_deref(), Some("value"));
    assert!(!map.contains_key("key"));
}

#[test]
fn a_map_goes_to_any_thread_and_through_panics_and_its_errors_may_be_passed_on() {
    fn is_send_and_sync<T: Send + Sync>() {}
    fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    is_send_and_sync::<TtlMap<String, Vec<u8>>>();
    is_unwind_safe::<TtlMap<u64, u64>>();
    is_unwind_safe::<KeyedTimers<u64>>();
    let TtlMaps { map, engine, .. } = by_hand();
    engine.stop().unwrap();
    let fails = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        map.insert(1, "late", MS)?;
        Ok(())
    };
    assert_eq!(fails().unwrap_err().to_string(), "the engine has stopped");
}

#[test]
fn the_engine_counts_an_entry_as_one_timer() {
    let TtlMaps { map, engine, .. } = by_hand();
    for key in 0..4 {
        map.insert(key, "value", 10 * MS).unwrap();
    }
    map.get_and_extend(&0, 20 * MS).unwrap();
    map.extend(&1, 30 * MS).unwrap();
    map.remove(&2).unwrap();
    engine.advance(HOUR).unwrap();
    let stats = engine.stats();
    assert_eq!((stats.scheduled, stats.reset, stats.cancelled, stats.fired), (4, 2, 1, 3));
}
