//! Directed tests that are races of two threads: the caller that drives an engine, and another one
//! that has its handles. Each is run until what it is for was reached.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;

use tickless::{Batch, Builder, Engine, Handle, ManualClock};

use super::until_reached;
use crate::draw::Draw;
use crate::threads;

const NS: Duration = Duration::from_nanos(1);

/// What handles and the owner of the shard do to each other.
pub(super) const HOLDERS: &[&str] = &[
    "CancelLost",
    "ResetLost",
    "LetGoLost",
    "EndLost",
    "RefileLost",
    "UnlinkLost",
    "HandleGone",
    "RefiledLate",
    "AsideLost",
];

/// What the engine's threads do to each other and to producers, at the moment that it takes.
pub(super) const THREADS: &[&str] =
    &["RoleBusy", "SleepCalledOff", "SetterBusy", "SetterLate", "WatcherCalled"];

/// A task that nobody runs again.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Nobody>) {}
}

/// An engine of the smallest wheel, in which entries are re-filed all the time and slots have
/// several rounds.
fn engine(clock: &ManualClock) -> Engine<u32> {
    let builder = Builder::new().shards(1).tick(NS).slots(2).reach(2).exact_below(0);
    let builder = builder.manual_clock(clock);
    let engine = builder.build_with_handler(|batch: Batch<'_, u32>| batch.for_each(drop));
    engine.expect("the configuration is valid")
}

/// Turns while `other` runs.
fn turning<T: Send + 'static>(
    engine: &Engine<T>,
    clock: &ManualClock,
    other: impl FnOnce() + Send,
) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            other();
            is_done.store(true, Ordering::Relaxed);
        });
        let draw = &mut Draw::new(1);
        while !is_done.load(Ordering::Relaxed) {
            // Sometimes late: then there are rounds.
            clock.advance(NS * draw.below(12) as u32);
            engine.turn(0).expect("it is driven here");
        }
    });
}

pub(super) fn holders_and_the_owner() {
    let mut seed = 0;
    until_reached(HOLDERS, || {
        seed += 1;
        let clock = ManualClock::new();
        let engine = engine(&clock);
        turning(&engine, &clock, || hold(&engine, &mut Draw::new(seed)));
        drop(engine.stop());
    });
}

/// Schedules, resets, cancels and lets go, of a few timers that are due soon or overdue.
fn hold(engine: &Engine<u32>, draw: &mut Draw) {
    let start = engine.now();
    let mut handles: Vec<Handle<u32>> = Vec::new();
    for n in 0..20_000 {
        let soon = NS * draw.below(40) as u32;
        match draw.below(8) {
            0 | 1 => handles.extend(engine.schedule(soon, n)),
            // It is overdue, by ever more.
            2 => handles.extend(engine.schedule(start + soon, n)),
            _ if handles.is_empty() => {}
            choice => {
                let index = draw.below(handles.len() as u64) as usize;
                match choice {
                    3 => drop(handles.swap_remove(index).cancel()),
                    4 => drop(handles.swap_remove(index)),
                    _ => drop(handles[index].reset(soon)),
                }
            }
        }
        if handles.len() > 12 {
            drop(handles.swap_remove(0));
        }
    }
}

/// Each poll is by another task, while the buckets open under the sleep.
pub(super) fn pollers_and_the_owner() {
    until_reached(&["ExchangeUnlinked"], || {
        let clock = ManualClock::new();
        let builder = Engine::builder().shards(1).tick(NS).slots(2).reach(2).exact_below(0);
        let engine = builder.manual_clock(&clock).build().expect("the configuration is valid");
        turning(&engine, &clock, || {
            for n in 0..300 {
                let mut sleep = pin!(engine.sleep(NS * (200 + n)));
                let poll = |sleep: std::pin::Pin<&mut tickless::future::Sleep>| {
                    let waker = Arc::new(Nobody).into();
                    sleep.get_mut().poll_elapsed(&mut Context::from_waker(&waker)).is_pending()
                };
                while poll(sleep.as_mut()) {}
            }
        });
        drop(engine.stop());
    });
}

pub(super) fn readers_and_the_owner() {
    until_reached(&["ScanAgain"], || {
        let clock = ManualClock::new();
        let engine = engine(&clock);
        for n in 0..2_000 {
            engine.schedule_detached(NS * (1_000 + n), n).expect("there is no limit");
        }
        turning(&engine, &clock, || {
            for _ in 0..50 {
                drop(engine.snapshot());
            }
        });
        drop(engine.stop());
    });
}

/// Histories as those of the search, until each of these was reached.
pub(super) fn histories_with_threads() {
    let mut seed = 0;
    until_reached(THREADS, || {
        seed += 1;
        threads::run(&threads::case(&mut Draw::new(seed), 120));
    });
}

/// A stop closes the notices, and then each of many buckets; a timer is filed in one meanwhile.
pub(super) fn a_schedule_and_a_stop() {
    until_reached(&["NoticeRefused"], || {
        let clock = ManualClock::new();
        let builder = Builder::new().shards(1).tick(NS).slots(512).reach(512).exact_below(0);
        let builder = builder.manual_clock(&clock);
        let engine = builder.build_with_handler(|batch: Batch<'_, u32>| batch.for_each(drop));
        let engine = engine.expect("the configuration is valid");
        // The buckets are there, and none is armed again.
        (0..500).for_each(|n| drop(engine.schedule_detached(NS * n, n)));
        clock.advance(NS * 600);
        engine.turn(0).expect("it is driven here");
        let begins = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..500 {
                    // From the last one on, which is closed last.
                    if engine.schedule_detached(NS * (500 - n), n).is_err() {
                        break;
                    }
                    begins.store(n >= 1, Ordering::Relaxed);
                }
                begins.store(true, Ordering::Relaxed);
            });
            while !begins.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            drop(engine.stop());
        });
    });
}
