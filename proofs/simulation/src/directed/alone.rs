//! Directed tests of one engine that its caller drives.

use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use tickless::{Batch, Builder, Engine, ManualClock};
use tickless_keyed::KeyedTimers;

use super::{count, until_reached};

const MS: Duration = Duration::from_millis(1);

fn engine(builder: Builder) -> (Engine<u32>, ManualClock) {
    let clock = ManualClock::new();
    let builder = builder.shards(1).tick(MS).manual_clock(&clock).exact_below(0);
    let engine = builder.build_with_handler(|batch: Batch<'_, u32>| batch.for_each(drop));
    (engine.expect("the configuration is valid"), clock)
}

fn schedule(engine: &Engine<u32>, count: u32, at: Duration) {
    let at = engine.now() + at;
    (0..count).for_each(|n| engine.schedule_detached(at, n).expect("there is no limit"));
}

/// More timers than a chunk of background work in a bucket of level 3, which opens at 14,336 ms.
fn in_the_midst_of_a_cascade() -> (Engine<u32>, ManualClock) {
    let (engine, clock) = engine(Builder::new());
    schedule(&engine, 3_000, 15_000 * MS);
    clock.advance(14_300 * MS);
    assert!(engine.turn(0).expect("it is driven here").more, "the cascade has just begun");
    (engine, clock)
}

pub(super) fn a_cascade_is_cut_short() {
    let (engine, _clock) = in_the_midst_of_a_cascade();
    assert_eq!(engine.stop().expect("no task runs").len(), 3_000);
    let (engine, clock) = in_the_midst_of_a_cascade();
    clock.advance(1_000 * MS);
    assert_eq!(engine.turn(0).expect("it is driven here").fired, 3_000);
}

/// A bucket of level 3 has two rounds, because the reaper is late; the second is put aside when the
/// first opens, and is more than a chunk.
pub(super) fn a_round_is_cascaded() {
    let (engine, clock) = engine(Builder::new());
    schedule(&engine, 1, 14_400 * MS);
    clock.advance(70_000 * MS);
    // The same slot, 64 buckets later: 78 * 1,024 ms.
    schedule(&engine, 3_000, (79_900 - 70_000) * MS);
    let turn = || engine.turn(0).expect("it is driven here");
    while turn().more {}
    clock.advance((79_800 - 70_000) * MS);
    assert!(turn().more, "the cascade has just begun");
    clock.advance(1_000 * MS);
    assert_eq!(turn().fired, 3_000);
}

pub(super) fn crowded_buckets_are_parked() {
    let crowds = |share: usize| {
        let (engine, clock) = engine(Builder::new().share(share));
        schedule(&engine, 50, 10 * MS);
        schedule(&engine, 2, 11 * MS);
        clock.advance(11 * MS);
        assert_eq!(engine.turn_at_most(0, 45).expect("it is driven here").fired, 45);
        engine
    };
    // What is behind it goes first, and the rest when nothing else is due.
    let engine = crowds(10);
    assert_eq!(engine.turn(0).expect("it is driven here").fired, 7);
    let engine = crowds(10);
    assert_eq!(engine.turn_at_most(0, 1).expect("it is driven here").fired, 1);
    assert_eq!(engine.stop().expect("no task runs").len(), 6);
}

pub(super) fn a_crowd_is_filed() {
    let (engine, _clock) = engine(Builder::new());
    schedule(&engine, 40_000, 40_000 * MS);
    let turn = engine.turn(0).expect("it is driven here");
    let next = turn.next.expect("something is pending");
    // The bucket opens at 32,768 ms; a quarter of its width before that there is work to do.
    assert!(next < engine.now() + 32_000 * MS, "it wakes up for the cascade");
}

/// The depot of seats is filled while many timers live, and the living become few.
pub(super) fn a_crowd_is_cancelled() {
    let (engine, _clock) = engine(Builder::new());
    let at = engine.now() + 15_000 * MS;
    let owned = |n| engine.schedule(at, n).expect("there is no limit");
    let handles: Vec<_> = (0..60_000).map(owned).collect();
    handles.into_iter().for_each(|handle| assert!(handle.cancel()));
}

/// Each bucket of level 1 has a second round, which is put aside because the reaper is late. The
/// rounds open while a sweep goes through them.
pub(super) fn rounds_open_under_a_sweep() {
    let mut turns = 0;
    until_reached(&["SweepRoundGone"], || {
        turns += 1;
        let (engine, clock) = engine(Builder::new());
        (1..32).for_each(|n| schedule(&engine, 1, n * MS));
        clock.advance(640 * MS);
        let now = engine.now();
        let owned = |n: u32| engine.schedule(now + (1 + n % 31) * MS, n).expect("it goes on");
        let handles: Vec<_> = (0..12_000).map(owned).collect();
        while engine.turn(0).expect("it is driven here").more {}
        handles.into_iter().for_each(|handle| assert!(handle.cancel()));
        for _ in 0..turns % 10 {
            engine.turn(0).expect("it is driven here");
        }
        clock.advance(40 * MS);
        while engine.turn(0).expect("it is driven here").more {}
    });
}

/// The sweep stands at the first entry of a bucket's lists when others are pushed before it.
pub(super) fn a_bucket_fills_under_a_sweep() {
    let mut more = 0;
    until_reached(&["SweepPassed"], || {
        more += 7;
        let (engine, _clock) = engine(Builder::new());
        let at = engine.now() + 15_000 * MS;
        let owned = |n| engine.schedule(at, n).expect("there is no limit");
        let handles: Vec<_> = (0..9_000 + more).map(owned).collect();
        handles.into_iter().for_each(|handle| assert!(handle.cancel()));
        engine.turn(0).expect("it is driven here");
        // More than there are seats.
        schedule(&engine, 6_000, 15_000 * MS);
        while engine.turn(0).expect("it is driven here").more {}
    });
}

/// A hook that drives the engine and schedules an earlier timer is called again.
pub(super) fn a_hook_turns_and_schedules() {
    let clock = ManualClock::new();
    let inside = Arc::new(OnceLock::<Engine<u32>>::new());
    let (known, calls) = (inside.clone(), Arc::new(std::sync::Mutex::new(0)));
    let counted = calls.clone();
    let hook = move |shard| {
        let Some(engine) = known.get() else { return };
        let call = {
            let mut calls = counted.lock().expect("nothing panics here");
            *calls += 1;
            *calls
        };
        if call == 1 {
            engine.turn(shard).expect("it is driven here");
            engine.schedule_detached(MS, 1).expect("it goes on");
        }
    };
    let builder = Builder::new().shards(1).tick(MS).manual_clock(&clock).on_earlier(hook);
    let engine = builder.build_with_handler(|batch: Batch<'_, u32>| batch.for_each(drop));
    let engine = engine.expect("the configuration is valid");
    engine.turn(0).expect("it is driven here");
    assert!(inside.set(engine.clone()).is_ok());
    engine.schedule_detached(100 * MS, 0).expect("it goes on");
    assert!(*calls.lock().expect("nothing panics here") >= 2, "it was called again");
    drop(engine.stop());
}

/// A reset under a key takes another timer, whose hook resets the key once more.
pub(super) fn a_reset_in_a_reset() {
    let inside = Arc::new(OnceLock::<KeyedTimers<u8>>::new());
    let known = inside.clone();
    let hook = move |_| {
        if let Some(keyed) = known.get() {
            // (The stop in the end rings as well.)
            let _ = keyed.reset(&1, MS);
        }
    };
    let builder = Engine::builder().shards(1).tick(MS).exact_below(0).on_earlier(hook);
    let engine = builder.manual_clock(&ManualClock::new()).build();
    let engine = engine.expect("the configuration is valid");
    let keyed = KeyedTimers::with_engine(&engine);
    keyed.schedule_keyed(1, 1_000_000 * MS, || ()).expect("it goes on");
    engine.turn(0).expect("it is driven here");
    assert!(inside.set(keyed.clone()).is_ok());
    keyed.reset(&1, 10_000 * MS).expect("it waits");
    assert_eq!(keyed.deadline(&1), Some(engine.now() + MS), "the reset that came last counts");
    drop(engine.stop());
}

/// Two threads turn the same shard: the second waits for the task that the first is in, which ends
/// when the second waits, or once a stop has ended the role.
pub(super) fn a_role_is_awaited() {
    for event in ["RoleAwaited", "RoleAwaitedEnd"] {
        until_reached(&[event], || await_role(event));
    }
}

fn await_role(event: &'static str) {
    let (begins, begun) = mpsc::channel();
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).tick(MS).manual_clock(&clock).build();
    let engine = engine.expect("the configuration is valid");
    let before = count("RoleAwaited");
    let is_stopping = engine.clone();
    let task = move || {
        begins.send(()).expect("the test waits");
        while count("RoleAwaited") == before {
            thread::yield_now();
        }
        while event == "RoleAwaitedEnd" && !is_stopping.is_stopped() {
            thread::yield_now();
        }
    };
    engine.schedule_detached(Duration::ZERO, task).expect("it goes on");
    thread::scope(|scope| {
        scope.spawn(|| engine.turn(0));
        begun.recv().expect("the task begins");
        scope.spawn(|| engine.turn(0));
        if event == "RoleAwaitedEnd" {
            while count("RoleAwaited") == before {
                thread::yield_now();
            }
            drop(engine.stop());
        }
    });
    drop(engine.stop());
}
