//! The limit on pending timers, and the timers of sleeps, which it does not count.

use std::future::pending;
use std::time::Duration;

use support::polling::{bell, poll};
use support::random::Random;
use tickless::{Builder, Engine, Handle, ManualClock, ScheduleReason, Task};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn room_for(timers: u64) -> Engine {
    let builder = Builder::new().manual_clock(&ManualClock::new());
    builder.shards(1).max_pending(timers).build().unwrap()
}

/// How many timers still fit. They are cancelled again.
fn room(engine: &Engine) -> usize {
    let mut fit: Vec<Handle> = Vec::new();
    loop {
        match engine.schedule(HOUR, || ()) {
            Ok(handle) => fit.push(handle),
            Err(refused) => {
                assert_eq!(refused.reason(), ScheduleReason::Full);
                let count = fit.len();
                assert!(fit.into_iter().all(Handle::cancel));
                return count;
            }
        }
    }
}

#[test]
fn whatever_becomes_of_sleeps_the_room_stays_as_it_is() {
    let engine = room_for(3);
    let (_, first) = bell();
    let (_, second) = bell();
    let mut sleeps: Vec<_> = (1..=10).map(|n| engine.sleep(MS * n)).collect();
    sleeps.iter_mut().for_each(|sleep| assert!(poll(sleep, &first).is_pending()));
    let mut timeout = engine.timeout(MS * 20, pending::<()>());
    assert!(poll(&mut timeout, &first).is_pending());
    assert_eq!((engine.len(), room(&engine)), (11, 3));
    // Fired, cancelled, polled by another task, reset to a later and to an earlier time.
    engine.advance(MS * 2).unwrap();
    assert_eq!(room(&engine), 3);
    sleeps.truncate(8);
    assert_eq!(room(&engine), 3);
    assert!(poll(&mut sleeps[5], &second).is_pending());
    sleeps[5].reset(HOUR);
    sleeps[6].reset(MS);
    assert_eq!(room(&engine), 3);
    assert!(poll(&mut sleeps[7], &first).is_pending());
    engine.advance(HOUR).unwrap();
    assert_eq!((engine.len(), room(&engine)), (0, 3));
    drop((sleeps, timeout));
    assert_eq!(room(&engine), 3);
}

#[test]
fn a_stop_ends_sleeps_returns_others_and_releases_the_right_room() {
    let engine = room_for(4);
    let (_, waker) = bell();
    let mut sleep = engine.sleep(MS);
    assert!(poll(&mut sleep, &waker).is_pending());
    engine.schedule_detached(MS, || ()).unwrap();
    assert_eq!(engine.stop().unwrap().len(), 1);
    drop(sleep);
}

/// Random steps, each followed by a look at the room that is left.
#[test]
fn the_room_is_that_of_timers_which_are_no_sleeps() {
    let (_, first) = bell();
    let (_, second) = bell();
    for seed in 0..8 {
        let engine = room_for(40);
        let mut random = Random::new(seed);
        let mut timers: Vec<Handle<Task>> = Vec::new();
        let mut sleeps = Vec::new();
        for _ in 0..300 {
            let delay = MS * random.below(100) as u32;
            let at = |random: &mut Random, len: usize| random.below(len.max(1) as u64) as usize;
            match random.below(8) {
                0 | 1 => timers.extend(engine.schedule(delay, || ()).ok()),
                2 | 3 => sleeps.push(engine.sleep(delay + MS)),
                4 if !timers.is_empty() => {
                    let timer = timers.swap_remove(at(&mut random, timers.len()));
                    timer.cancel();
                }
                5 if !sleeps.is_empty() => {
                    drop(sleeps.swap_remove(at(&mut random, sleeps.len())));
                }
                6 if !sleeps.is_empty() => {
                    let which = at(&mut random, sleeps.len());
                    sleeps[which].reset(delay);
                }
                _ => drop(engine.advance(delay / 4)),
            }
            for sleep in &mut sleeps {
                let waker = if random.below(2) == 0 { &first } else { &second };
                let _ = poll(sleep, waker);
            }
            timers.retain(|timer| timer.state() == tickless::State::Pending);
            assert_eq!(room(&engine), 40 - timers.len());
        }
        let stats = engine.stats();
        assert_eq!(stats.pending, engine.len() as u64);
        engine.check().unwrap();
    }
}
