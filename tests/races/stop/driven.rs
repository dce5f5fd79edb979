//! Stopping engines that their caller drives: a loop that sleeps until the time that its last turn
//! gave, or until the hook wakes it, ends whenever the engine is stopped.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use support::mpsc::{self, Receiver, Sender};
use support::random::Random;
use support::{scaled, spread};
// One that ThreadSanitizer can follow.
use support::patience::PATIENCE;
use support::threads::spawn;
use support::watchdog::{Pulse, watched};
use tickless::{Batch, Builder, Clock, Driver, Engine, ManualClock, TurnError};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

fn drop_all(batch: Batch<'_, u64>) {
    batch.for_each(drop);
}

/// An engine of so many shards for its caller's turns, and what the hook tells each shard's driver.
fn driven(shards: usize) -> (Engine<u64>, Vec<Receiver<()>>) {
    let (wakers, woken): (Vec<Sender<()>>, Vec<_>) = (0..shards).map(|_| mpsc::channel()).unzip();
    let wakers = Mutex::new(wakers);
    let hook = move |shard: usize| _ = wakers.lock().unwrap()[shard].send(());
    let builder = Builder::new().shards(shards).driver(Driver::Caller);
    let builder = builder.tick(Duration::from_micros(50)).on_earlier(hook);
    (builder.build_with_handler(drop_all).unwrap(), woken)
}

/// A caller's loop as the docs of `on_earlier` have it: turns, and sleeps until the next. Answers
/// how many timers it fired.
fn drive(engine: &Engine<u64>, shard: usize, woken: &Receiver<()>) -> usize {
    let mut fired = 0;
    loop {
        let turn = match engine.turn(shard) {
            Ok(turn) => turn,
            Err(error) => {
                assert_eq!(error, TurnError::Stopped);
                return fired;
            }
        };
        fired += turn.fired;
        // Whatever ended the sleep, another turn comes.
        match turn.sleep(engine.now()) {
            Some(Duration::ZERO) => {}
            Some(sleep) => _ = woken.recv_timeout(sleep),
            None => _ = woken.recv(),
        }
    }
}

/// A thread per shard that drives it. Each answers how many timers it fired.
fn drivers(engine: &Engine<u64>, woken: Vec<Receiver<()>>) -> Vec<JoinHandle<usize>> {
    let driver = |(shard, woken)| {
        let engine = engine.clone();
        spawn(move || drive(&engine, shard, &woken))
    };
    woken.into_iter().enumerate().map(driver).collect()
}

/// One life of an engine: driven by a thread per shard, used by two, and stopped by another at a
/// moment that `seed` tells.
fn live(seed: u64, shards: usize) {
    let random = &mut Random::new(seed);
    let (engine, woken) = driven(shards);
    let drivers = drivers(&engine, woken);
    let users: Vec<_> = (0..2)
        .map(|user| {
            let engine = engine.clone();
            let random = &mut Random::new(seed * 2 + user);
            // As often nothing is pending as something is: both sleeps are to end.
            let (timers, far) = (random.below(30), random.below(2) == 0);
            spawn(move || {
                let mut refused = 0;
                for n in 0..timers {
                    let delay = if far { HOUR } else { Duration::from_micros(n * 37 % 300) };
                    let scheduled = engine.schedule(delay, n);
                    refused += u64::from(scheduled.is_err_and(|error| error.is_stopped()));
                }
                timers - refused
            })
        })
        .collect();
    for _ in 0..random.below(200) {
        std::hint::spin_loop();
    }
    (0..random.below(20)).for_each(|_| thread::yield_now());
    let returned = engine.stop().unwrap().len();
    let scheduled: u64 = users.into_iter().map(|user| user.join().unwrap()).sum();
    // This is where it hangs.
    let fired: usize = drivers.into_iter().map(|driver| driver.join().unwrap()).sum();
    assert_eq!(scheduled, (fired + returned) as u64, "seed {seed}");
    assert_eq!(engine.stats().pending, 0);
}

#[test]
fn a_loop_that_sleeps_as_it_is_told_ends_whenever_the_engine_is_stopped() {
    watched("a loop of turns and an engine's stop", |pulse: &Pulse| {
        // Each number of shards at least once.
        for seed in 0..scaled(150).max(3) {
            println!("seed {seed}");
            live(seed, 1 + seed as usize % 3);
            pulse.beat();
        }
    });
}

/// Stops an engine whose hook lets the woken caller look before it returns, and answers what that
/// was told: by an engine whose clock is `clock`, through `look`.
fn told_inside_the_hook(
    clock: Clock,
    look: impl Fn(&Engine<u64>) -> Result<(), TurnError> + Send + 'static,
) -> Option<TurnError> {
    let (wake, woken) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel();
    let answered = Mutex::new(answered);
    let hook = move |_| {
        wake.send(()).unwrap();
        // Were the look to wait for the stop to go on, it would answer after this.
        let _ = answered.lock().unwrap().recv_timeout(PATIENCE);
    };
    let builder = Builder::new().shards(1).clock(clock).driver(Driver::Caller).on_earlier(hook);
    let engine = builder.build_with_handler(drop_all).unwrap();
    engine.turn(0).unwrap();
    let of_driver = engine.clone();
    let driver = spawn(move || {
        woken.recv_timeout(PATIENCE).expect("the stop calls the hook");
        let seen = look(&of_driver).err();
        let _ = answer.send(());
        seen
    });
    engine.stop().unwrap();
    driver.join().unwrap()
}

#[test]
fn a_caller_that_the_hook_wakes_while_the_engine_stops_is_told() {
    let turn = |engine: &Engine<u64>| engine.turn(0).map(drop);
    assert_eq!(told_inside_the_hook(Clock::system(), turn), Some(TurnError::Stopped));
    let manual = || Clock::manual(&ManualClock::new());
    assert_eq!(told_inside_the_hook(manual(), turn), Some(TurnError::Stopped));
    let advance = |engine: &Engine<u64>| engine.advance(MS).map(drop);
    assert_eq!(told_inside_the_hook(manual(), advance), Some(TurnError::Stopped));
    let some = |engine: &Engine<u64>| engine.turn_at_most(0, 1).map(drop);
    assert_eq!(told_inside_the_hook(manual(), some), Some(TurnError::Stopped));
}

#[test]
fn loops_end_when_several_threads_stop_the_engine_at_once() {
    watched("a loop of turns and several stops", |pulse: &Pulse| {
        for seed in 0..scaled(40) {
            let (engine, woken) = driven(2);
            let drivers = drivers(&engine, woken);
            let begin = Instant::now();
            engine.schedule_detached(Duration::from_micros(seed % 400), seed).unwrap();
            let stop = |_| {
                let engine = engine.clone();
                spawn(move || engine.stop().unwrap().len())
            };
            let stoppers: Vec<_> = (0..3).map(stop).collect();
            let returned: usize = stoppers.into_iter().map(|it| it.join().unwrap()).sum();
            let fired: usize = drivers.into_iter().map(|it| it.join().unwrap()).sum();
            assert_eq!(returned + fired, 1, "after {:?}", begin.elapsed());
            pulse.beat();
        }
    });
}

#[test]
fn a_turn_that_a_stop_cuts_short_tells_what_it_had_fired() {
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    let (stops, stopped) = mpsc::channel();
    let same = engine.clone();
    let task = move || {
        let stopper = same.clone();
        stops.send(spawn(move || stopper.stop().unwrap().len())).unwrap();
        while !same.is_stopped() {
            thread::yield_now();
        }
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    (0..3).for_each(|_| engine.schedule_detached(Duration::ZERO, || ()).unwrap());
    let turn = engine.turn(0).unwrap();
    assert_eq!((turn.fired, turn.more), (1, true));
    assert_eq!(engine.turn(0), Err(TurnError::Stopped));
    assert_eq!(stopped.recv().unwrap().join().unwrap(), 3);
    assert_eq!(engine.stats().fired, 1);
}

/// Turns wait for each other and take over from each other, and the stop finds payloads in hand.
#[test]
fn what_turns_left_in_hand_is_counted_once() {
    let rounds = scaled(400);
    for round in 0..rounds {
        let clock = ManualClock::new();
        let take_a_while = |_: u64| (0..5).for_each(|_| thread::yield_now());
        let builder = Builder::new().shards(1).manual_clock(&clock);
        let engine = builder.build_each(take_a_while).unwrap();
        (0..12).for_each(|number| engine.schedule_detached(MS, number).unwrap());
        clock.advance(MS);
        let turners = [true, true, false].map(|waits| {
            let engine = engine.clone();
            let turn = move || match waits {
                true => engine.turn(0).is_ok(),
                false => engine.take_over(0).is_ok(),
            };
            spawn(move || while turn() {})
        });
        (0..spread(round, rounds, 40)).for_each(|_| thread::yield_now());
        let returned = engine.stop().unwrap().len() as u64;
        turners.into_iter().for_each(|turner| turner.join().unwrap());
        let stats = engine.stats();
        assert_eq!((stats.returned, stats.fired, stats.pending), (returned, 12 - returned, 0));
    }
}
