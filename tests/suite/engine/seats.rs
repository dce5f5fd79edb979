//! Seats: what a cancelled timer leaves serves the next, and what serves nobody is swept.
//! (`tests/races/engine/seats.rs` has several threads.)

use std::thread;
use std::time::Duration;

use support::mpsc;
use tickless::{Batch, Builder, Engine, Handle, ManualClock};

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

/// Dead entries are let be while they are no more than the pending timers, or than 4096; and a
/// thread looks only after every 32 of them.
const DEAD_AT_MOST: u64 = 4096 + SLACK;

const SLACK: u64 = 128;

/// As in other tests, and at least `n`: with fewer there is nothing to sweep.
fn scaled(n: u64) -> u64 {
    support::scaled(n).max(n)
}

fn drop_all(batch: Batch<'_, u64>) {
    batch.for_each(drop);
}

fn manual() -> Engine<u64> {
    manual_shards(1)
}

fn manual_shards(shards: usize) -> Engine<u64> {
    let clock = ManualClock::new();
    Builder::new().shards(shards).manual_clock(&clock).build_with_handler(drop_all).unwrap()
}

/// Runs turns until there is nothing left to do at this time.
fn settle(engine: &Engine<u64>) {
    for shard in 0..engine.shards() {
        while engine.turn(shard).unwrap().more {}
    }
}

fn schedule_many(engine: &Engine<u64>, delay: Duration, n: u64) -> Vec<Handle<u64>> {
    // Of different lengths, so that many buckets have some.
    let delays = (0..n).map(|n| delay + MS * (n as u32 % 100_000));
    delays.map(|delay| engine.schedule(delay, 0).unwrap()).collect()
}

fn cancel_all(handles: Vec<Handle<u64>>) {
    assert!(handles.into_iter().all(Handle::cancel));
}

#[test]
fn the_next_timer_takes_the_seat_of_a_cancelled_one_unless_it_is_due_before_the_bucket_opens() {
    let engine = manual();
    cancel_all(schedule_many(&engine, HOUR, 1));
    engine.schedule_detached(MS * 5, 0).unwrap();
    assert_eq!(engine.stats().seated, 0, "it would be late there");
    engine.schedule_detached(HOUR, 0).unwrap();
    assert_eq!(engine.stats().seated, 1);
    engine.schedule_detached(HOUR, 0).unwrap();
    assert_eq!(engine.stats().seated, 1, "a seat is for one");
    engine.check().unwrap();
    assert_eq!(engine.advance(HOUR * 2), Ok(3));
}

#[test]
fn a_storm_of_cancels_is_swept_without_time_going_by_or_anything_new() {
    let engine = manual();
    cancel_all(schedule_many(&engine, HOUR, scaled(100_000)));
    engine.check().unwrap();
    settle(&engine);
    engine.check().unwrap();
    assert!(engine.stats().dead <= DEAD_AT_MOST, "{:?}", engine.stats());
}

#[test]
fn the_living_are_not_touched_by_a_sweep() {
    let engine = manual();
    let mut living = schedule_many(&engine, HOUR, scaled(2000));
    cancel_all(schedule_many(&engine, HOUR, scaled(50_000)));
    living.extend(schedule_many(&engine, HOUR * 2, scaled(1000)));
    settle(&engine);
    engine.check().unwrap();
    assert!(engine.stats().dead <= DEAD_AT_MOST);
    assert_eq!(engine.len() as u64, scaled(3000));
    assert_eq!(engine.advance(HOUR * 5), Ok(scaled(3000) as usize));
    assert_eq!(engine.stats().dead, 0, "every bucket with dead in it has opened");
}

#[test]
fn the_dead_never_outnumber_the_living_for_long() {
    let engine = manual();
    let many = scaled(40_000);
    let mut living = schedule_many(&engine, HOUR, many);
    while !living.is_empty() {
        cancel_all(living.split_off(living.len().saturating_sub(many as usize / 20)));
        settle(&engine);
        let stats = engine.stats();
        assert!(stats.dead <= DEAD_AT_MOST.max(stats.pending + SLACK), "{stats:?}");
    }
}

#[test]
fn a_sweep_that_is_overtaken_by_more_cancels_goes_round_again() {
    // All in one bucket, which a sweep takes out as a whole and goes through in chunks.
    let engine = manual();
    let many = scaled(120_000) as usize;
    let mut living: Vec<_> = (0..many).map(|n| engine.schedule(HOUR, n as u64).unwrap()).collect();
    // The lists are walked from the latest timer on: cancel the earlier ones first.
    let late = living.split_off(many * 6 / 10);
    cancel_all(living);
    for _ in 0..15 {
        assert!(engine.turn(0).unwrap().more, "a sweep is under way");
    }
    assert!(engine.stats().dead > DEAD_AT_MOST, "and not done");
    cancel_all(late);
    settle(&engine);
    engine.check().unwrap();
    assert!(engine.stats().dead <= DEAD_AT_MOST, "{:?}", engine.stats());
}

#[test]
fn what_resets_to_earlier_times_leave_behind_is_swept_too() {
    let engine = manual();
    let mut handles = schedule_many(&engine, HOUR * 64, scaled(10_000));
    for hours in [32, 16, 8, 4, 2] {
        for handle in &mut handles {
            assert!(handle.reset(HOUR * hours).is_ok());
        }
        settle(&engine);
        engine.check().unwrap();
        let stats = engine.stats();
        assert!(stats.dead <= DEAD_AT_MOST.max(stats.pending + SLACK), "{hours} hours: {stats:?}");
    }
    assert_eq!(engine.len() as u64, scaled(10_000));
}

#[test]
fn a_shard_is_swept_whose_dead_were_few_until_the_living_of_another_were_cancelled() {
    let engine = manual_shards(2);
    engine.bind_thread(0).unwrap();
    // Of many more, the depots would keep too few.
    let first = schedule_many(&engine, HOUR, 20_000);
    engine.bind_thread(1).unwrap();
    let second = schedule_many(&engine, HOUR, 30_000);
    cancel_all(first);
    settle(&engine);
    assert!(engine.stats().dead > DEAD_AT_MOST, "so many are fine while others live");
    cancel_all(second);
    settle(&engine);
    engine.check().unwrap();
    assert!(engine.stats().dead <= DEAD_AT_MOST, "{:?}", engine.stats());
}

#[test]
fn what_a_bound_thread_schedules_is_in_its_shard_whatever_it_or_others_cancelled() {
    let engine = manual_shards(2);
    let shards = |engine: &Engine<u64>| -> [usize; 2] {
        [0, 1].map(|shard| engine.snapshot().iter().filter(|timer| timer.shard == shard).count())
    };
    engine.bind_thread(0).unwrap();
    let mut before = schedule_many(&engine, HOUR, 300);
    let after = before.split_off(150);
    cancel_all(before);
    engine.bind_thread(1).unwrap();
    cancel_all(after);
    assert_eq!(shards(&engine), [0, 0]);
    let kept = schedule_many(&engine, HOUR, 300);
    assert_eq!(shards(&engine), [0, 300]);
    cancel_all(kept);
    let seated = engine.stats().seated;
    let kept = schedule_many(&engine, HOUR, 300);
    assert_eq!(shards(&engine), [0, 300]);
    assert!(engine.stats().seated > seated, "it uses the seats of its own shard");
    thread::scope(|scope| scope.spawn(|| cancel_all(kept)).join().unwrap());
    engine.bind_thread(0).unwrap();
    let foreign = schedule_many(&engine, HOUR, 40);
    assert_eq!(shards(&engine), [40, 0], "what others left may be of any shard");
    cancel_all(foreign);
    engine.bind_thread(1).unwrap();
    let seated = engine.stats().seated;
    let _kept = schedule_many(&engine, HOUR, 300);
    assert_eq!(shards(&engine), [0, 300]);
    assert!(engine.stats().seated > seated, "it finds those of its own among them");
    engine.check().unwrap();
}

#[test]
fn shards_without_dead_entries_are_not_asked_to_sweep() {
    let (sender, rung) = mpsc::channel();
    let builder = Builder::new().shards(3).manual_clock(&ManualClock::new());
    let hook = move |shard| sender.send(shard).unwrap();
    let engine = builder.on_earlier(hook).build_with_handler(drop_all).unwrap();
    engine.bind_thread(1).unwrap();
    let handles = schedule_many(&engine, HOUR, scaled(50_000));
    settle(&engine);
    rung.try_iter().for_each(drop);
    cancel_all(handles);
    let rung: Vec<usize> = rung.try_iter().collect();
    assert!(!rung.is_empty() && rung.iter().all(|&shard| shard == 1), "{rung:?}");
}

#[test]
fn a_bucket_of_which_no_list_is_empty_is_swept_too() {
    let clock = ManualClock::new();
    let builder = Builder::new().tick(MS).shards(1).exact_below(0).manual_clock(&clock);
    let engine = builder.build_with_handler(drop_all).unwrap();
    let many = |delay: Duration, n| -> Vec<Handle<u64>> {
        (0..n).map(|payload| engine.schedule(delay, payload).unwrap()).collect()
    };
    let mut handles = many(MS * 1100, scaled(20_000));
    clock.advance(MS * 800);
    settle(&engine);
    assert_eq!(engine.stats().cascaded, scaled(20_000), "all are in the reaper's own lists");
    handles.extend(many(MS * 300, scaled(1000)));
    assert_eq!(engine.snapshot().iter().filter(|timer| timer.level == 2).count(), handles.len());
    cancel_all(handles);
    settle(&engine);
    engine.check().unwrap();
    assert!(engine.stats().dead <= DEAD_AT_MOST, "{:?}", engine.stats());
}

#[test]
fn the_dead_are_swept_when_most_of_the_living_have_fired() {
    let engine = manual();
    // Of many more, the depots would keep too few.
    for payload in 0..50_000 {
        engine.schedule_detached(MS * 5, payload).unwrap();
    }
    cancel_all(schedule_many(&engine, HOUR, 45_000));
    settle(&engine);
    assert!(engine.stats().dead > DEAD_AT_MOST, "so many are fine while others live");
    assert_eq!(engine.advance(MS * 5), Ok(50_000));
    engine.check().unwrap();
    assert!(engine.stats().dead <= DEAD_AT_MOST, "{:?}", engine.stats());
}
