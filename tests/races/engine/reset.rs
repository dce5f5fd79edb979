//! Reset against fire: who wins has moved the timer. (`tests/suite/engine/reset.rs` has all levels
//! and times.)

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use support::random::Random;
use support::scaled;
use support::threads::spawn;
use tickless::{Batch, Builder, Engine};
// One that ThreadSanitizer can follow.
use tickless_sync::Mutex;

/// When a timer's task ran.
type FiredAt = Arc<Mutex<Option<Instant>>>;

/// Resets one timer until it fires, and answers before which instant it must not have fired.
fn reset_until_it_fires(engine: &Engine<FiredAt>, random: &mut Random) -> (Instant, FiredAt) {
    let fired_at = FiredAt::default();
    let mut delay = Duration::from_micros(200 + random.below(2000));
    let mut earliest = Instant::now() + delay;
    let mut handle = engine.schedule(delay, fired_at.clone()).unwrap();
    for _ in 0..random.below(3000) {
        // Earlier and later in turn; often so early that the fire comes in between.
        delay = Duration::from_nanos(random.below(400_000));
        let if_moved = Instant::now() + delay;
        if handle.reset(delay).is_err() {
            return (earliest, fired_at);
        }
        earliest = if_moved;
    }
    drop(handle);
    (earliest, fired_at)
}

#[test]
fn a_reset_that_races_with_the_fire_and_wins_is_not_followed_by_a_fire_at_the_old_time() {
    const RACERS: u64 = 2;
    let handler = |batch: Batch<'_, FiredAt>| {
        for fired_at in batch {
            let before = fired_at.lock().unwrap().replace(Instant::now());
            assert_eq!(before, None, "a timer fires once");
        }
    };
    let builder = Builder::new().tick(Duration::from_micros(100)).shards(2);
    let engine = builder.build_with_handler(handler).unwrap();
    let race = |seed| {
        let engine = engine.clone();
        spawn(move || {
            let random = &mut Random::new(seed);
            let one = |n| {
                let outcome = reset_until_it_fires(&engine, random);
                // However busy the machine is: the reaper comes once, and what was reset fires.
                while n == 0 && engine.stats().fired == 0 {
                    thread::yield_now();
                }
                outcome
            };
            (0..scaled(400)).map(one).collect::<Vec<_>>()
        })
    };
    let racers: Vec<_> = (0..RACERS).map(race).collect();
    let raced: Vec<_> = racers.into_iter().flat_map(|racer| racer.join().unwrap()).collect();
    let returned = engine.stop().unwrap();
    let mut fired = 0;
    for (earliest, fired_at) in raced {
        if let Some(at) = *fired_at.lock().unwrap() {
            assert!(at >= earliest, "{:?} before its new time", earliest - at);
            fired += 1;
        }
    }
    assert_eq!(fired + returned.len() as u64, RACERS * scaled(400));
    assert!(fired > 0, "some lose the race");
    assert_eq!(engine.stats().panicked, 0);
    assert_eq!(engine.stats().fired, fired);
}
