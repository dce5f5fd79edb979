//! Allocation: a steady state allocates nothing, and memory is bounded by what is live.

mod apis;

use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::settled::assert_settles;
use support::alone::alone;
use support::counting::{free_what_waits_for_readers, here, live, made_here};
use support::hands::let_memory_go;
use support::random::Random;
use support::scaled;
use tickless::periodic::{Attempt, Backoff, Heartbeat, Retry, Run, Schedule};
use tickless::wait::Ended;
use tickless::{Batch, Builder, Engine, Handle, ManualClock, Waitable};

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

/// What a thread may have at hand and the depot of one shard may hold, in seats and in free
/// memory, and then some.
const AT_HAND: i64 = 4096;

/// Dead entries are let be while they are no more than the pending timers, or than 4096; and a
/// thread looks only after every 32 of them.
const DEAD_AT_MOST: i64 = 4096 + 128;

fn closures() -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

fn typed() -> Engine<u64> {
    let drop_all = |batch: Batch<'_, u64>| batch.for_each(drop);
    Builder::new().shards(1).manual_clock(&ManualClock::new()).build_with_handler(drop_all).unwrap()
}

#[test]
fn a_snapshot_takes_32_bytes_for_each_timer() {
    let _alone = alone();
    let engine = typed();
    // A vector that grows by doubling would have room for nearly twice as many.
    let timers = 70_000;
    (0..timers).for_each(|n| engine.schedule_detached(HOUR, n).unwrap());
    let before = here();
    let snapshot = engine.snapshot();
    let bytes = here().bytes - before.bytes;
    assert_eq!(snapshot.len() as u64, timers);
    assert!(bytes <= 32 * timers as i64 + 1024, "{bytes} bytes for {timers} timers");
}

#[test]
fn a_task_that_can_be_waited_for_costs_one_allocation_more() {
    let _alone = alone();
    let engine = closures();
    let once = |what: &str, each: u64, mut schedule: Box<dyn FnMut() -> Waitable>| {
        let mut step = || assert_eq!(schedule().cancel_wait(), Ok(Ended::Cancelled));
        (0..1000).for_each(|_| step());
        let before = made_here();
        (0..1000).for_each(|_| step());
        assert_eq!(made_here() - before, each * 1000, "{what}");
    };
    let of = engine.clone();
    once("a small closure", 1, Box::new(move || of.schedule_waitable(HOUR, || ()).unwrap()));
    let large = move || {
        let captured = [1_u64; 5];
        let task = move || _ = black_box(captured);
        engine.schedule_waitable(HOUR, task).unwrap()
    };
    once("a closure that is boxed", 2, Box::new(large));
}

/// Asserts that `step` allocates nothing once it has run for a while.
fn allocates_nothing(what: &str, mut step: impl FnMut()) {
    let steps = scaled(5000);
    (0..1000).for_each(|_| step());
    assert_settles(0, what, || {
        let before = made_here();
        (0..steps).for_each(|_| step());
        made_here() - before
    });
}

#[test]
fn a_steady_schedule_and_cancel_allocates_nothing() {
    let _alone = alone();
    let engine = closures();
    allocates_nothing("a closure without captures", || {
        assert!(engine.schedule(HOUR, || ()).unwrap().cancel());
    });
    let captured = [1_usize, 2, 3];
    allocates_nothing("a closure that captures three words", || {
        let task = move || {
            black_box(captured);
        };
        assert!(engine.schedule(HOUR, task).unwrap().cancel());
    });
    let engine = typed();
    allocates_nothing("a payload of its own type", || {
        assert_eq!(engine.schedule(HOUR, 7).unwrap().take(), Some(7));
    });
    let random = &mut Random::new(1);
    let mut waiting: Vec<Handle<u64>> = Vec::with_capacity(100);
    allocates_nothing("a hundred at a time, due at different times", || {
        let delay = HOUR + MS * random.below(100_000) as u32;
        waiting.push(engine.schedule(delay, 7).unwrap());
        if waiting.len() == 100 {
            assert!(waiting.swap_remove(random.below(100) as usize).cancel());
        }
    });
}

#[test]
fn a_larger_closure_costs_one_allocation() {
    let _alone = alone();
    let engine = closures();
    (0..100).for_each(|_| assert!(engine.schedule(HOUR, || ()).unwrap().cancel()));
    let captured = [1_u64; 4];
    let before = made_here();
    let task = move || {
        black_box(captured);
    };
    assert!(engine.schedule(HOUR, task).unwrap().cancel());
    assert_eq!(made_here() - before, 1);
}

#[test]
fn a_steady_reset_allocates_nothing_to_whichever_time() {
    let _alone = alone();
    let engine = typed();
    let mut handle = engine.schedule(HOUR, 7).unwrap();
    allocates_nothing("later", || assert!(handle.reset(HOUR * 2).is_ok()));
    // Each leaves a seat that is too late for the next, until a later one takes it.
    allocates_nothing("earlier and later", || {
        assert!(handle.reset(HOUR / 60).is_ok());
        assert!(handle.reset(HOUR).is_ok());
        assert!(engine.schedule(HOUR * 4, 8).unwrap().cancel());
    });
}

#[test]
fn a_steady_schedule_and_fire_allocates_nothing() {
    let _alone = alone();
    let engine = typed();
    allocates_nothing("fired one by one", || {
        engine.schedule_detached(MS * 3, 7).unwrap();
        assert_eq!(engine.advance(MS * 3), Ok(1));
    });
    allocates_nothing("with a handle that is dropped before or after", || {
        drop(engine.schedule(MS, 7).unwrap());
        let handle = engine.schedule(MS, 7).unwrap();
        assert_eq!(engine.advance(MS), Ok(2));
        assert!(!handle.cancel());
    });
    // The same delays over and over: after the longest, as many fire as are scheduled.
    let delays = [1, 1, 2, 31, 33, 64, 500, 1000, 1023, 1025, 1500, 2000];
    let (mut steps, mut fired) = (0, 0);
    let mut step = || {
        delays.iter().for_each(|&ms| engine.schedule_detached(MS * ms, 7).unwrap());
        fired += engine.advance(MS).unwrap();
        steps += 1;
    };
    (0..20_000).for_each(|_| step());
    allocates_nothing("over several levels", step);
    assert_eq!(fired + engine.len(), delays.len() * steps);
}

#[test]
fn a_task_that_reschedules_itself_allocates_nothing() {
    let _alone = alone();
    fn again(engine: &Engine) {
        let inner = engine.clone();
        engine.schedule_detached(MS, move || again(&inner)).unwrap();
    }
    let engine = closures();
    again(&engine);
    allocates_nothing("a chain of tasks", || assert_eq!(engine.advance(MS), Ok(1)));
    // Its tasks have clones of the engine, which is a circle.
    drop(engine.stop());
}

#[test]
fn a_million_far_timers_that_are_cancelled_by_their_thread_take_the_room_of_a_few() {
    let _alone = alone();
    let engine = typed();
    let before = live().entries;
    let mut most = 0;
    for _ in 0..scaled(1_000_000) {
        assert!(engine.schedule(HOUR, 7).unwrap().cancel());
        most = most.max(live().entries - before);
    }
    assert!(most <= 64, "{most} entries for one timer at a time");
    assert_eq!(engine.stats().dead, 0);
}

#[test]
fn far_timers_that_are_cancelled_later_take_room_in_proportion_to_those_that_live() {
    const LIVING: i64 = 1000;
    let _alone = alone();
    let engine = typed();
    let before = live().entries;
    let random = &mut Random::new(3);
    let mut waiting = Vec::new();
    let mut most = 0;
    for round in 0..scaled(300_000) {
        waiting.push(engine.schedule(HOUR + MS * random.below(3_000_000) as u32, 7).unwrap());
        if waiting.len() as i64 > LIVING {
            let at = random.below(waiting.len() as u64) as usize;
            assert!(waiting.swap_remove(at).cancel());
        }
        if round % 1000 == 0 {
            while engine.turn(0).unwrap().more {}
            most = most.max(live().entries - before);
        }
    }
    assert!(most <= LIVING + AT_HAND + DEAD_AT_MOST, "{most} entries for {LIVING} timers");
}

#[test]
fn a_million_far_timers_that_another_thread_cancels_take_the_room_of_a_few() {
    const BATCH: u64 = 1000;
    let _alone = alone();
    let engine = typed();
    let before = live().entries;
    let (send_over, take_over) = mpsc::channel::<Vec<Handle<u64>>>();
    let (send_back, take_back) = mpsc::channel();
    let canceller = thread::spawn(move || {
        for mut batch in take_over {
            assert!(batch.drain(..).all(Handle::cancel));
            send_back.send(batch).unwrap();
        }
    });
    let mut most = 0;
    let mut batch = Vec::new();
    for _ in 0..scaled(1_000_000) / BATCH {
        batch.extend((0..BATCH).map(|_| engine.schedule(HOUR, 7).unwrap()));
        send_over.send(batch).unwrap();
        batch = take_back.recv_timeout(Duration::from_secs(60)).unwrap();
        while engine.turn(0).unwrap().more {}
        most = most.max(live().entries - before);
        assert!(engine.stats().dead <= DEAD_AT_MOST as u64, "{:?}", engine.stats());
    }
    drop(send_over);
    canceller.join().unwrap();
    let bound = BATCH as i64 + AT_HAND + DEAD_AT_MOST;
    assert!(most <= bound, "{most} entries for {BATCH} timers at a time");
}

#[test]
fn a_storm_of_cancels_with_no_new_timer_leaves_the_room_of_a_few() {
    const THREADS: u64 = 4;
    const PER_BLOCK: i64 = 63;
    let _alone = alone();
    let engine = typed();
    let before = live().entries;
    let random = &mut Random::new(5);
    let mut schedule = |_: i64| {
        let delay = HOUR + MS * random.below(1_000_000_000) as u32;
        engine.schedule(delay, 7).unwrap()
    };
    let mut parts: Vec<Vec<Handle<u64>>> = Vec::new();
    for _ in 0..THREADS {
        parts.push((0..(scaled(200_000) / THREADS) as i64).map(&mut schedule).collect());
    }
    assert!(live().entries - before >= scaled(200_000) as i64 - AT_HAND);
    // On threads that never scheduled anything, and while nobody does.
    let cancel = |part: Vec<Handle<u64>>| {
        thread::spawn(move || assert!(part.into_iter().all(Handle::cancel)))
    };
    let threads: Vec<_> = parts.into_iter().map(cancel).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    while engine.turn(0).unwrap().more {}
    assert!(engine.stats().dead <= DEAD_AT_MOST as u64, "{:?}", engine.stats());
    // Until then the depot of a shard holds up to 32,768 free entries, with as many blocks.
    let_memory_go(&engine);
    free_what_waits_for_readers();
    let left = live().entries - before;
    let most = PER_BLOCK * (AT_HAND + DEAD_AT_MOST);
    assert!(left <= most, "{left} entries for no timer: each that is left holds a block at most");
    // What those blocks have besides serves the next timers.
    let next: Vec<_> = (0..left / 2).map(schedule).collect();
    let more = live().entries - before - left;
    assert!(more <= AT_HAND, "{more} entries more for {} timers", next.len());
}

/// What a crowd of timers leaves in bytes, once all have fired, and after a while.
fn kept<T: Send + Copy + 'static>(timers: u64, payload: T) -> [i64; 2] {
    let drop_all = |batch: Batch<'_, T>| batch.for_each(drop);
    let builder = Builder::new().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(drop_all).unwrap();
    let before = live().bytes;
    (0..timers).for_each(|_| engine.schedule_detached(MS, payload).unwrap());
    let crowd = timers as i64 * size_of::<T>() as i64;
    assert!(live().bytes - before >= crowd, "the payloads lie in the entries");
    assert_eq!(engine.advance(MS), Ok(timers as usize));
    let kept = || {
        free_what_waits_for_readers();
        live().bytes - before
    };
    let at_once = kept();
    let_memory_go(&engine);
    [at_once, kept()]
}

#[test]
fn a_crowd_leaves_a_few_megabytes_however_large_its_payloads_are_and_less_after_a_while() {
    let _alone = alone();
    let measure =
        || [kept(100_000, 7_u64), kept(5_000, [7_u8; 8 << 10]), kept(1_000, [7_u8; 64 << 10])];
    // Each call on the way has a copy of the payload.
    let thread = thread::Builder::new().stack_size(64 << 20).spawn(measure).unwrap();
    let crowds = thread.join().unwrap();
    for [at_once, later] in crowds {
        assert!(at_once <= 6 << 20, "{at_once} bytes for no timer: {crowds:?}");
        assert!(later <= 1 << 20, "{later} bytes for no timer, after a while: {crowds:?}");
    }
}

#[test]
fn what_a_far_timers_payload_owns_is_freed_in_its_cancel_whichever_thread_cancels() {
    const BALLAST: usize = 10_000_000;
    let _alone = alone();
    let engine = closures();
    for is_elsewhere in [false, true] {
        let ballast = vec![1_u8; BALLAST];
        let task = move || drop(black_box(ballast));
        let handle = engine.schedule(HOUR * 10_000, task).unwrap();
        let cancel = || {
            let before = live().bytes;
            assert!(handle.cancel());
            before - live().bytes
        };
        let freed = if is_elsewhere { thread::spawn(cancel).join().unwrap() } else { cancel() };
        // Up to what a thread makes when it first meets an engine.
        assert!(freed > BALLAST as i64 / 2, "{freed} bytes");
    }
}
