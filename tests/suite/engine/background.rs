//! What a shard does while nothing is due: coarse buckets are cascaded before they open, in
//! chunks, and whatever is due comes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tickless::{Batch, Engine, ManualClock, Turn};

/// Entries that background work handles in one turn (`shard/ahead.rs`).
const CHUNK: u64 = 1024;

/// Timers of a crowd: several chunks of them, all in the level-3 bucket that opens at 1024 ms.
const CROWD: u64 = 10_000;

/// An engine with ticks of 1 ms and the default geometry: level 2 holds 32 ms per bucket, level 3
/// holds 1024.
fn engine(clock: &ManualClock) -> Engine<u64> {
    let builder = tickless::Builder::new().manual_clock(clock).shards(1).exact_below(0);
    builder.build_typed(|batch: Batch<'_, u64>| batch.for_each(drop)).expect("it is valid")
}

fn crowd(engine: &Engine<u64>) {
    for i in 0..CROWD {
        let delay = Duration::from_millis(1024 + i % 1000);
        engine.schedule_detached(delay, i).expect("the engine runs");
    }
}

fn turn(engine: &Engine<u64>) -> Turn {
    let turn = engine.turn(0).expect("the caller drives");
    engine.check().expect("every invariant holds");
    turn
}

#[test]
fn a_coarse_bucket_is_cascaded_before_it_opens_in_chunks() {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    crowd(&engine);
    clock.advance(Duration::from_millis(767));
    assert!(!turn(&engine).more, "more than a quarter of its width is left");
    assert_eq!(engine.stats().cascaded, 0);

    clock.advance(Duration::from_millis(1));
    let mut turns = 0;
    while turn(&engine).more {
        turns += 1;
        let cascaded = engine.stats().cascaded;
        assert!(cascaded <= turns * CHUNK, "{cascaded} cascaded in {turns} turns");
    }
    assert_eq!(engine.stats().cascaded, CROWD);
    assert_eq!(engine.len() as u64, CROWD);

    clock.advance(Duration::from_millis(256));
    assert_eq!(turn(&engine).fired as u64, CROWD / 1000);
    assert_eq!(engine.stats().cascaded, CROWD, "nothing is left to do when it opens");
}

#[test]
fn a_shard_that_sleeps_until_a_coarse_bucket_opens_is_rung_when_that_fills_up() {
    let clock = ManualClock::new();
    let rings = Arc::new(AtomicUsize::new(0));
    let counted = rings.clone();
    let builder = tickless::Builder::new().manual_clock(&clock).shards(1).exact_below(0);
    let engine = builder
        .on_earlier(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        })
        .build_typed(|batch: Batch<'_, u64>| batch.for_each(drop))
        .expect("it is valid");
    let due = engine.now() + Duration::from_millis(1024);
    engine.schedule_detached(Duration::from_millis(1500), 0).expect("the engine runs");
    assert_eq!(turn(&engine).next, Some(due), "for one timer nothing is done ahead");
    let many = |delay_ms| {
        rings.store(0, Ordering::Relaxed);
        for i in 0..4 * CHUNK {
            engine.schedule_detached(Duration::from_millis(delay_ms), i).expect("it runs");
        }
        rings.load(Ordering::Relaxed)
    };
    assert_eq!(many(1500), 0, "four thousand are no crowd");

    rings.store(0, Ordering::Relaxed);
    (0..4).for_each(|_| crowd(&engine));
    assert!(rings.load(Ordering::Relaxed) > 0, "nobody was told of forty thousand timers");
    assert_eq!(turn(&engine).next, Some(due - Duration::from_millis(256)));

    rings.store(0, Ordering::Relaxed);
    (0..4).for_each(|_| crowd(&engine));
    assert_eq!(rings.load(Ordering::Relaxed), 0, "it wakes ahead of time already");
    assert_eq!(many(790), 0, "a fine bucket that opens at 768 ms is not cascaded ahead");
}

#[test]
fn what_is_due_does_not_wait_for_background_work() {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    crowd(&engine);
    clock.advance(Duration::from_millis(800));
    assert!(turn(&engine).more, "the crowd is more than a chunk");
    for done in 1..=5 {
        engine.schedule_detached(Duration::ZERO, done).expect("the engine runs");
        let turn = turn(&engine);
        assert_eq!(turn.fired, 1, "due timers come first");
        assert!(turn.more);
        assert!(engine.stats().cascaded <= (done + 1) * CHUNK);
    }
}

#[test]
fn a_bucket_that_opens_in_the_middle_of_its_cascade_loses_nothing() {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    crowd(&engine);
    clock.advance(Duration::from_millis(900));
    assert!(turn(&engine).more);
    let before = engine.stats().cascaded;
    assert!(before < CROWD, "the errand is under way");

    // Late arrivals in the bucket, and then it opens.
    engine.schedule_detached(Duration::from_millis(1124), 0).expect("the engine runs");
    clock.advance(Duration::from_millis(124));
    let fired = turn(&engine).fired as u64;
    assert_eq!(fired, CROWD / 1000, "all that is due at 1024 ms, and no more");
    assert_eq!(
        engine.advance(Duration::from_millis(1000)).expect("it is manual") as u64,
        CROWD + 1 - fired
    );
}

#[test]
fn a_bucket_of_the_same_slot_on_another_level_does_not_end_background_work() {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    crowd(&engine);
    clock.advance(Duration::from_millis(805));
    assert!(turn(&engine).more, "the errand is under way");
    // The crowd's bucket is in slot 1 of level 3; 833 is slot 1 of level 1, and due alone.
    engine.schedule_detached(Duration::from_millis(28), 0).expect("the engine runs");
    clock.advance(Duration::from_millis(28));
    assert_eq!(turn(&engine).fired, 1);
    while turn(&engine).more {}
    assert_eq!(engine.stats().cascaded, CROWD, "all of it, and before it opens");
}

#[test]
fn a_later_round_that_came_into_the_bucket_meanwhile_is_not_cascaded_with_it() {
    let clock = ManualClock::new();
    let engine = Engine::builder()
        .manual_clock(&clock)
        .shards(1)
        .exact_below(0)
        .build()
        .expect("it is valid");
    let ms = Duration::from_millis;
    clock.advance(ms(800));
    // On level 2, in the bucket that opens at 1088 ms and is cascaded from 1080 on.
    engine.schedule_detached(ms(300), || ()).expect("the engine runs");
    // While the turn of 1080 ms runs, time goes on, and a timer for 3148 ms comes into the same
    // slot: its bucket opens a round of the ring after the other.
    let (inner, time) = (engine.clone(), clock.clone());
    let slow_task = move || {
        time.advance(ms(1120));
        inner.schedule_detached(ms(948), || ()).expect("the engine runs");
    };
    engine.schedule_detached(ms(280), slow_task).expect("the engine runs");
    clock.advance(ms(280));
    assert_eq!(engine.turn(0).expect("the caller drives").fired, 1);
    let mut levels: Vec<u8> = engine.snapshot().iter().map(|timer| timer.level).collect();
    levels.sort_unstable();
    assert_eq!(levels, [1, 2], "one was cascaded ahead");
    assert_eq!(engine.stats().cascaded, 2, "that, and the slow task");
    assert_eq!(engine.turn(0).expect("the caller drives").fired, 1);
    assert_eq!(engine.advance(ms(947)), Ok(0));
    assert_eq!(engine.advance(ms(1)), Ok(1));
}

#[test]
fn timers_cancelled_and_moved_during_background_work_stay_so() {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    let mut handles: Vec<_> = (0..CROWD)
        .map(|i| engine.schedule(Duration::from_millis(1024 + i % 1000), i).expect("it runs"))
        .collect();
    clock.advance(Duration::from_millis(800));
    assert!(turn(&engine).more);

    let kept: Vec<_> = handles.drain(..CROWD as usize / 2).collect();
    assert!(handles.into_iter().all(|handle| handle.cancel()));
    let mut kept = kept.into_iter();
    let (mut earlier, mut later) = (kept.next().expect("many"), kept.next().expect("many"));
    assert!(earlier.reset(Duration::from_millis(5)).is_ok());
    assert!(later.reset(Duration::from_secs(3600)).is_ok());
    assert_eq!(engine.advance(Duration::from_millis(5)).expect("it is manual"), 1);
    let fired = engine.advance(Duration::from_secs(60)).expect("it is manual");
    assert_eq!(fired as u64, CROWD / 2 - 2);
    assert_eq!(engine.len(), 1);
    assert_eq!(engine.advance(Duration::from_secs(3600)).expect("it is manual"), 1);
}
