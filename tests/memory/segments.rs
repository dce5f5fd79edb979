//! Segments: what a level with a million buckets costs the thread that files the first timer on it.

use std::time::Duration;

use support::alone::alone;
use support::counting::here;
use support::random::Random;
use support::scaled;
use tickless::{Batch, Builder, Engine, Handle, ManualClock};

const MS: Duration = Duration::from_millis(1);

const SLOTS: u32 = 1 << 20;

/// Buckets that are made at a time, and the bytes of one.
const SEGMENT: u32 = 8;
const BUCKET: i64 = if cfg!(target_pointer_width = "64") { 256 } else { 192 };

fn engine(slots: u32) -> Engine<u64> {
    let drop_all = |batch: Batch<'_, u64>| batch.for_each(drop);
    let builder =
        Builder::new().slots(slots).reach(slots).shards(1).manual_clock(&ManualClock::new());
    builder.build_with_handler(drop_all).expect("it is valid")
}

#[test]
fn what_a_thread_owns_is_counted_to_the_byte() {
    let _alone = alone();
    let before = here();
    let block = vec![0_u8; 12_345];
    assert_eq!(here().bytes - before.bytes, 12_345, "the allocator that counts is in use");
    drop(block);
    assert_eq!((here().made - before.made, here().bytes), (1, before.bytes));
}

#[test]
fn a_timer_makes_one_segment_of_its_level_and_the_next_in_it_none() {
    let _alone = alone();
    for slots in [64, 128, 4096, SLOTS] {
        let engine = engine(slots);
        // What the thread keeps of the engine, memory for a few entries, and the first segment.
        engine.schedule_detached(MS, 0).expect("the engine runs");
        let cost = |slot: u32| {
            let before = here();
            engine.schedule_detached(MS * slot, 0).expect("the engine runs");
            (here().made - before.made, here().bytes - before.bytes)
        };
        assert_eq!(cost(SEGMENT - 1), (0, 0), "{slots}: the first segment is there");
        let one = (1, i64::from(SEGMENT) * BUCKET);
        assert_eq!(cost(slots - 1), one, "{slots}: blocks and bytes of the last segment");
        assert_eq!(cost(slots - SEGMENT), (0, 0), "{slots}: it is there by now");
        engine.check().expect("every invariant holds");
        assert_eq!(engine.stop().expect("nobody is inside").len(), 4);
    }
}

/// A walk over the wheel visits each bucket that was made, and a stop closes it.
#[test]
fn timers_far_apart_make_a_few_buckets_each() {
    const GAP: u32 = 50;
    let _alone = alone();
    let (timers, engine) = (scaled(1000), engine(SLOTS));
    let next = || {
        engine.schedule_detached(GAP * MS, 0).expect("the engine runs");
        assert_eq!(engine.advance(GAP * MS).expect("it is driven by hand"), 1);
    };
    next();
    let before = here();
    (0..timers).for_each(|_| next());
    let made = (here().bytes - before.bytes) / BUCKET;
    // And a little for the heap of those that are armed.
    assert!(made <= timers as i64 * i64::from(SEGMENT + 1), "{made} buckets for {timers} timers");
    assert_eq!(engine.snapshot().len(), 0);
}

#[test]
fn timers_all_over_a_wheel_with_a_million_slots_are_found_cancelled_swept_fired_and_returned() {
    let _alone = alone();
    let timers = scaled(20_000);
    let engine = engine(SLOTS);
    let random = &mut Random::new(16);
    let handles: Vec<(u64, Handle<u64>)> = (0..timers)
        .map(|_| {
            let due_ms = 1 + random.below(1 << 22);
            (due_ms, engine.schedule(MS * due_ms as u32, due_ms).expect("the engine runs"))
        })
        .collect();
    engine.check().expect("every invariant holds");
    assert_eq!(engine.snapshot().len() as u64, timers);
    let (cancelled, kept): (Vec<_>, Vec<_>) =
        handles.into_iter().partition(|(due_ms, _)| due_ms % 4 > 0);
    let cancels = cancelled.len() as u64;
    assert!(cancelled.into_iter().all(|(_, handle)| handle.cancel()));
    while engine.turn(0).expect("it is driven by hand").more {}
    engine.check().expect("every invariant holds");
    assert!(engine.stats().dead <= (timers - cancels).max(4096) + 128, "{}", engine.stats().dead);
    let half = 1 << 21;
    let early = kept.iter().filter(|(due_ms, _)| *due_ms <= half).count();
    let fired = engine.advance(MS * half as u32).expect("it is driven by hand");
    assert_eq!(fired, early, "what is due by now, and no more");
    assert_eq!(engine.stop().expect("nobody is inside").len(), kept.len() - early);
}
