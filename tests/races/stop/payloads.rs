//! Stop: whatever races with it, each payload is run, returned, given back or cancelled, once.

use std::sync::{Barrier, OnceLock};
use std::time::Duration;
use std::{slice, thread};

use support::mpsc;
use support::patience::PATIENCE;
use support::random::Random;
use support::threads::spawn;
use support::token::{Fates, Token};
use support::until::wait_until;
use support::{scaled, spread};
use tickless::local::Geometry;
use tickless::{
    Batch, Builder, Driver, Engine, Handle, ManualClock, ResetError, State, StopError, Tick,
};
use tickless_core::doorbell::{Bell, Doorbell};
use tickless_core::memory::Shared;
use tickless_core::producer::{self, Moved, Producer};
use tickless_core::shard::Shard;

const HOUR: Duration = Duration::from_secs(3600);

fn run_all(batch: Batch<'_, Token>) {
    batch.for_each(|token| token.run());
}

fn threaded() -> Engine<Token> {
    let builder = Builder::new().tick(Duration::from_micros(50)).shards(2);
    builder.build_with_handler(run_all).unwrap()
}

fn manual() -> (Engine<Token>, ManualClock) {
    let clock = ManualClock::new();
    (Builder::new().shards(2).manual_clock(&clock).build_with_handler(run_all).unwrap(), clock)
}

/// What a producer saw of its tokens.
#[derive(Default)]
struct Seen {
    refused: Vec<usize>,
    taken: Vec<usize>,
    given_back: Vec<usize>,
}

/// Schedules, takes and resets until the engine refuses. Calls `before` with each number.
fn use_until_it_stops(
    engine: &Engine<Token>,
    fates: &Fates,
    numbers: std::ops::Range<usize>,
    before: impl Fn(usize),
) -> Seen {
    let mut random = Random::new(numbers.start as u64);
    let mut seen = Seen::default();
    let mut handles: Vec<Handle<Token>> = Vec::new();
    for number in numbers {
        before(number);
        let delay = [HOUR, Duration::from_micros(100)][random.below(2) as usize];
        match engine.schedule(delay, fates.token(number)) {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                assert!(error.is_stopped());
                seen.refused.push(error.into_payload().number);
            }
        }
        if handles.len() > 20 {
            let mut handle = handles.swap_remove(random.below(20) as usize);
            match random.below(4) {
                0 => drop(handle),
                1 => seen.taken.extend(handle.take().map(|token| token.number)),
                // To an earlier time, which is a new entry; and to a later one.
                _ => match handle.reset(HOUR / (1 + random.below(1000) as u32)) {
                    Ok(()) | Err(ResetError::TooLate) => handles.push(handle),
                    // Returned by the stop, or left in the handle.
                    Err(_) => seen.given_back.extend(handle.take().map(|token| token.number)),
                },
            }
        }
        if seen.refused.len() > 3 {
            // The rest is not made at all.
            return seen;
        }
    }
    seen
}

#[test]
fn a_stop_that_races_with_everything_loses_nothing_and_doubles_nothing() {
    const PRODUCERS: usize = 3;
    const EACH: usize = 3000;
    // The first producer makes the others after the stop, however late that is, which waits for
    // fewer.
    const AFTER: usize = 2000;
    let (rounds, mut refused) = (scaled(60), 0);
    for round in 0..rounds {
        let fates = Fates::new(PRODUCERS * EACH);
        let engine = threaded();
        let (begin, returned) = (&Barrier::new(PRODUCERS + 1), &OnceLock::new());
        let seen: Vec<Seen> = thread::scope(|scope| {
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|producer| {
                    let (engine, fates) = (engine.clone(), fates.clone());
                    scope.spawn(move || {
                        begin.wait();
                        let numbers = producer * EACH..(producer + 1) * EACH;
                        let wait = |number| {
                            let is_free = number != AFTER;
                            wait_until("the stop", || is_free || returned.get().is_some());
                        };
                        use_until_it_stops(&engine, &fates, numbers, wait)
                    })
                })
                .collect();
            begin.wait();
            // After as many timers as the round says.
            while engine.stats().scheduled < spread(round, rounds, 1200) {
                thread::yield_now();
            }
            let tokens = engine.stop().unwrap();
            returned.get_or_init(|| tokens.iter().map(|token| token.number).collect::<Vec<_>>());
            producers.into_iter().map(|producer| producer.join().unwrap()).collect()
        });
        let mut ends = vec![0; PRODUCERS * EACH];
        let mut count = |numbers: &[usize]| numbers.iter().for_each(|&n| ends[n] += 1);
        count(returned.get().unwrap());
        for seen in &seen {
            refused += seen.refused.len();
            [&seen.refused, &seen.taken, &seen.given_back].into_iter().for_each(|n| count(n));
        }
        for (number, ends) in ends.into_iter().enumerate() {
            let (ran, dropped) = fates.of(number);
            // A token that was never made was never dropped.
            assert_eq!(ran + ends, dropped, "round {round}, token {number}");
            assert!(dropped <= 1, "round {round}, token {number}");
        }
        let stats = engine.stats();
        assert_eq!(stats.scheduled, stats.fired + stats.cancelled + stats.returned, "{stats:?}");
        assert_eq!(engine.len(), 0);
    }
    assert!(refused > 0, "the stop came while producers were at it");
}

#[test]
fn stopping_twice_returns_nothing_more() {
    for engine in [threaded(), manual().0] {
        let fates = Fates::new(2);
        engine.schedule_detached(HOUR, fates.token(0)).unwrap();
        engine.schedule_detached(Duration::MAX, fates.token(1)).unwrap();
        let mut numbers: Vec<_> = engine.stop().unwrap().iter().map(|t| t.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1]);
        assert_eq!(engine.stop().unwrap().len(), 0);
        assert_eq!(engine.clone().stop().unwrap().len(), 0);
        assert_eq!([fates.of(0), fates.of(1)], [(0, 1); 2]);
    }
}

#[test]
fn stoppers_that_race_share_what_was_pending() {
    for _ in 0..scaled(20) {
        let engine = threaded();
        let fates = Fates::new(1000);
        for number in 0..1000 {
            engine.schedule_detached(HOUR, fates.token(number)).unwrap();
        }
        let stoppers: Vec<_> = (0..3)
            .map(|_| engine.clone())
            .map(|engine| spawn(move || engine.stop().unwrap().len()))
            .collect();
        let returned: Vec<_> =
            stoppers.into_iter().map(|stopper| stopper.join().unwrap()).collect();
        assert_eq!(returned.iter().sum::<usize>(), 1000, "{returned:?}");
        assert!((0..1000).all(|number| fates.of(number) == (0, 1)));
    }
}

#[test]
fn a_payload_scheduled_after_the_stop_comes_back() {
    for engine in [threaded(), manual().0] {
        let fates = Fates::new(4);
        // The thread has a seat of the engine; it does not help.
        assert!(engine.schedule(HOUR, fates.token(0)).unwrap().cancel());
        engine.stop().unwrap();
        let now = engine.now();
        for (number, outcome) in [
            (1, engine.schedule(HOUR, fates.token(1)).map(drop)),
            (2, engine.schedule(now, fates.token(2)).map(drop)),
            (3, engine.schedule_detached(Duration::MAX, fates.token(3))),
        ] {
            let error = outcome.unwrap_err();
            assert!(error.is_stopped(), "{error}");
            let token = error.into_payload();
            assert_eq!((token.number, fates.of(number)), (number, (0, 0)));
        }
        assert_eq!(engine.stats().scheduled, 1);
    }
}

#[test]
fn stop_waits_for_the_task_that_runs() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let (started, begun) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let (done, ended) = mpsc::channel();
    let task = move || {
        started.send(()).unwrap();
        wait.recv_timeout(PATIENCE).unwrap();
        done.send(()).unwrap();
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    let stopper = spawn(move || engine.stop().unwrap().len());
    go_on.send(()).unwrap();
    assert_eq!(stopper.join().unwrap(), 0);
    assert_eq!(ended.try_recv(), Ok(()), "the task was over when stop returned");
}

#[test]
fn a_stop_is_heard_although_the_task_that_runs_swallows_its_ring() {
    // The reapers of many shards park between their turns, those of few wait for files.
    for shards in [1, 100] {
        let engine = Engine::builder().shards(shards).build().unwrap();
        let (started, begun) = mpsc::channel();
        let task = move || {
            started.send(thread::current()).unwrap();
            thread::park();
        };
        engine.schedule_detached(Duration::ZERO, task).unwrap();
        let reaper = begun.recv_timeout(PATIENCE).unwrap();
        let (stopped, ended) = mpsc::channel();
        spawn(move || stopped.send(engine.stop().unwrap().len()));
        reaper.unpark();
        assert_eq!(ended.recv_timeout(PATIENCE), Ok(0));
    }
}

#[test]
fn a_task_that_stops_its_own_engine_is_told_that_it_cannot() {
    let (sender, receiver) = mpsc::channel();
    let threaded = Engine::builder().shards(2).build().unwrap();
    let (inner, outcome) = (threaded.clone(), sender.clone());
    let task = move || outcome.send(inner.stop().map(|tasks| tasks.len())).unwrap();
    threaded.schedule_detached(Duration::ZERO, task).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Err(StopError::InsideTask)));
    threaded.schedule_detached(HOUR, || ()).expect("the engine goes on");
    assert_eq!(threaded.stop().unwrap().len(), 1);

    let clock = ManualClock::new();
    let driven = Engine::builder().shards(2).manual_clock(&clock).build().unwrap();
    let inner = driven.clone();
    let task = move || sender.send(inner.stop().map(|tasks| tasks.len())).unwrap();
    driven.schedule_detached(HOUR, task).unwrap();
    assert_eq!(driven.advance(HOUR), Ok(1));
    assert_eq!(receiver.try_recv(), Ok(Err(StopError::InsideTask)));
    assert_eq!(driven.stop().unwrap().len(), 0);
}

#[test]
fn a_driven_engine_that_stopped_takes_no_turns_and_fires_nothing() {
    let clock = ManualClock::new();
    let builder = Builder::new().shards(1).clock(tickless::Clock::manual(&clock));
    let engine = builder.driver(Driver::Caller).build_with_handler(run_all).unwrap();
    let fates = Fates::new(1);
    engine.schedule_detached(HOUR, fates.token(0)).unwrap();
    let returned = engine.stop().unwrap();
    assert_eq!(returned.len(), 1);
    assert!(engine.advance(HOUR * 2).is_err() && engine.turn(0).is_err());
    assert_eq!(fates.of(0), (0, 0), "it is ours now");
    drop(returned);
    assert_eq!(fates.of(0), (0, 1));
}

#[test]
fn what_a_bounded_turn_left_of_a_bucket_is_returned() {
    let (engine, _clock) = manual();
    engine.bind_thread(0).unwrap();
    let fates = Fates::new(500);
    for number in 0..500 {
        engine.schedule_detached(Duration::ZERO, fates.token(number)).unwrap();
    }
    assert_eq!(engine.turn_at_most(0, 200).unwrap().fired, 200);
    assert_eq!(engine.stop().unwrap().len(), 300);
    assert!((0..500).all(|number| fates.of(number).1 == 1));
}

#[test]
fn what_a_sweep_has_taken_out_is_returned() {
    let (engine, _clock) = manual();
    engine.bind_thread(0).unwrap();
    let fates = Fates::new(20_000);
    let far = |number| engine.schedule(HOUR, fates.token(number)).unwrap();
    let mut handles: Vec<_> = (0..20_000).map(far).collect();
    let living = handles.split_off(15_000);
    assert!(handles.into_iter().all(Handle::cancel));
    assert!(engine.turn(0).unwrap().more, "the sweep is not done");
    assert_eq!(engine.stop().unwrap().len(), living.len());
    assert!(living.iter().all(|handle| handle.state() == State::Stopped));
    assert!((0..20_000).all(|number| fates.of(number) == (0, 1)));
}

#[test]
fn a_reset_that_the_stop_overtakes_halfway_gives_the_payload_back() {
    // SAFETY: what is built on it keeps to it, and is closed before it goes.
    let shared = unsafe { Shared::new(1, 1, Some(1)) };
    let geometry = Geometry::default();
    let shard = Shard::new(0, geometry, Doorbell::new(Bell::None), Tick::ZERO, &shared);
    let mut producer = Producer::new(&shared, 0);
    let close = || {
        // The producer asks for the time after it has cancelled the old entry and before it files
        // the new one: this is when the shard closes.
        let mut owner = shard.owner().lock().unwrap();
        assert!(shard.close(&mut owner, &shared).is_empty(), "the payload is on its way");
        Tick::ZERO
    };
    let fates = Fates::new(2);
    let far = Tick::new(1_000_000);
    let now = Tick::ZERO;
    let schedule = |producer: &mut Producer<Token>, token| {
        let (shared, shard) = (&shared, &shard);
        // SAFETY: nothing is kept.
        unsafe {
            producer.schedule::<false, false>(
                shared,
                shard,
                far,
                || now,
                || now,
                token,
                true,
                |_| (),
            )
        }
    };
    let filed = schedule(&mut producer, fates.token(0));
    let (mut entry, deferred) = filed.unwrap();
    assert!(deferred.is_nothing(), "there is no hook");
    assert!(shard.has_notices(), "no turn has read the first one's");
    // SAFETY: this is the handle of the entry, and after `Stranded` of the other.
    let moved = unsafe {
        let (before, keep) = (entry, |other| entry = other);
        producer.reset(&shared, &shard, before, Tick::new(5), close, || now, keep)
    };
    assert!(!shard.has_notices(), "closing reads them too");
    assert_eq!(moved, Moved::Stranded);
    // It is the handle's now, and can't be moved any more, wherever to.
    for to in [far, Tick::ZERO, Tick::NEVER] {
        // SAFETY: this is the handle of the entry.
        let moved = unsafe { producer.reset(&shared, &shard, entry, to, || now, || now, |_| ()) };
        assert_eq!(moved, Moved::Gone);
    }
    assert_eq!((fates.of(0), shared.all_counters.pending()), ((0, 0), 0));
    let producers = (&mut producer, &shared, slice::from_ref(&shard));
    // SAFETY: this is the handle of the entry, which is given up.
    let token = unsafe { producer::cancel_and_take::<_, _, false>(entry, producers) };
    assert_eq!((token.map(|token| token.number), fates.of(0)), (Some(0), (0, 1)));
    // Its room is free again, so that this is refused for the right reason.
    let refused = schedule(&mut producer, fates.token(1));
    assert!(refused.unwrap_err().is_stopped());
    assert_eq!(shared.all_counters.pending(), 0);
    assert!(producer.clear(&shared).is_nothing());
}
