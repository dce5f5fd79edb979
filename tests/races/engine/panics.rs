//! Panics: a payload that panics is counted, takes nothing else down, and kills no reaper.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::boxed::Boxed;
use support::mpsc;
use support::patience::PATIENCE;
use support::planned::{Planned, panic_as_planned, quietly};
use support::threads::spawn;
use support::token::{Fates, Token};
use tickless::{Batch, Builder, Engine, ManualClock, TaskPanic};
use tickless_sync::Mutex;

const SOON: Duration = Duration::from_millis(5);

fn manual() -> (Engine, ManualClock) {
    quietly();
    let clock = ManualClock::new();
    (Engine::builder().shards(1).manual_clock(&clock).build().unwrap(), clock)
}

/// An engine for payloads that are handled by `handler`, driven by hand.
fn typed<T: Send + 'static>(handler: impl Fn(Batch<'_, T>) + Send + Sync + 'static) -> Engine<T> {
    quietly();
    Builder::new().shards(1).manual_clock(&ManualClock::new()).build_with_handler(handler).unwrap()
}

#[test]
fn a_task_that_panics_is_counted_and_the_rest_of_its_batch_runs() {
    let (engine, _clock) = manual();
    let ran = Arc::new(AtomicU32::new(0));
    for n in 0..20 {
        let ran = ran.clone();
        let task = move || {
            ran.fetch_add(1, Ordering::SeqCst);
            if n % 3 == 0 {
                panic_as_planned();
            }
        };
        engine.schedule_detached(SOON, task).unwrap();
    }
    assert_eq!(engine.advance(SOON), Ok(20), "those that panic were handed over too");
    assert_eq!(ran.load(Ordering::SeqCst), 20);
    let stats = engine.stats();
    assert_eq!((stats.panicked, stats.fired, stats.pending), (7, 20, 0));
    assert_eq!(Arc::strong_count(&ran), 1, "what they captured is dropped");
}

#[test]
fn a_reapers_thread_outlives_a_panic_and_serves_later_batches() {
    quietly();
    let engine = Engine::builder().shards(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    for round in 0..5 {
        engine.schedule_detached(Duration::ZERO, || panic_as_planned()).unwrap();
        let sender = sender.clone();
        engine.schedule_detached(SOON, move || sender.send(round).unwrap()).unwrap();
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(round));
    }
    assert_eq!(engine.stop().unwrap().len(), 0, "stopping finds the reaper alive");
    assert_eq!(engine.stats().panicked, 5);
}

#[test]
fn what_a_panicking_task_captured_is_dropped_once() {
    let (engine, _clock) = manual();
    let fates = Fates::new(2);
    for number in 0..2 {
        let token = fates.token(number);
        let task = move || {
            token.run();
            panic_as_planned();
        };
        engine.schedule_detached(SOON, task).unwrap();
    }
    assert_eq!(engine.advance(SOON), Ok(2));
    assert_eq!([fates.of(0), fates.of(1)], [(1, 1); 2]);
}

#[test]
fn a_handler_that_panics_in_the_middle_gets_what_it_had_not_taken() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let log = calls.clone();
    let engine = typed(move |batch: Batch<'_, u64>| {
        log.lock().unwrap().push(Vec::new());
        for payload in batch {
            log.lock().unwrap().last_mut().unwrap().push(payload);
            if payload % 4 == 3 {
                panic_as_planned();
            }
        }
    });
    for payload in 0..10 {
        engine.schedule_detached(SOON * (payload + 1), u64::from(payload)).unwrap();
    }
    assert_eq!(engine.turn(0).unwrap().fired, 0);
    for payload in 10..20 {
        engine.schedule_detached(SOON * 10, payload).unwrap();
    }
    assert_eq!(engine.advance(SOON * 9), Ok(9));
    assert_eq!(calls.lock().unwrap().len(), 9, "one by one, as time goes on");
    calls.lock().unwrap().clear();
    assert_eq!(engine.advance(SOON), Ok(11), "all at once");
    let mut calls = calls.lock().unwrap();
    let lengths: Vec<usize> = calls.iter().map(Vec::len).collect();
    assert_eq!(lengths.iter().sum::<usize>(), 11, "each payload once: {calls:?}");
    let (last, before) = calls.split_last().unwrap();
    assert!(before.iter().all(|call| call.last().unwrap() % 4 == 3), "{calls:?}");
    assert!(last.iter().rev().skip(1).all(|payload| payload % 4 != 3), "{calls:?}");
    let mut all = calls.drain(..).flatten().collect::<Vec<_>>();
    all.sort_unstable();
    assert_eq!(all, (9..20).collect::<Vec<_>>());
    assert_eq!(engine.stats().panicked, 5, "of 3, 7, 11, 15 and 19");
}

#[test]
fn a_handler_that_takes_nothing_and_panics_makes_progress_and_loses_one_payload_each_time() {
    let fates = Fates::new(5);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let log = calls.clone();
    let engine = typed(move |batch: Batch<'_, Token>| {
        log.lock().unwrap().push(batch.len());
        panic_as_planned();
    });
    for number in 0..5 {
        engine.schedule_detached(SOON, fates.token(number)).unwrap();
    }
    assert_eq!(engine.advance(SOON), Ok(5));
    assert_eq!(*calls.lock().unwrap(), [5, 4, 3, 2, 1]);
    assert_eq!((0..5).map(|n| fates.of(n)).collect::<Vec<_>>(), [(0, 1); 5]);
    assert_eq!(engine.stats().panicked, 5);
}

/// A payload whose drop is counted, and panics if its number is even.
fn bomb(number: u32, dropped: &Arc<AtomicU32>) -> Boxed {
    let dropped = dropped.clone();
    Boxed::on_drop(move || {
        dropped.fetch_add(1, Ordering::SeqCst);
        if number % 2 == 0 {
            panic_as_planned();
        }
    })
}

#[test]
fn what_a_handler_leaves_is_dropped_and_a_panic_at_that_is_counted() {
    let dropped = Arc::new(AtomicU32::new(0));
    let engine = typed(|_leaves_all: Batch<'_, Boxed>| ());
    for number in 1..=7 {
        engine.schedule_detached(SOON, bomb(number, &dropped)).unwrap();
    }
    engine.schedule_detached(SOON * 2, bomb(8, &dropped)).unwrap();
    assert_eq!(engine.advance(SOON), Ok(7));
    assert_eq!(dropped.load(Ordering::SeqCst), 7, "each once");
    assert_eq!(engine.stats().panicked, 3, "2, 4 and 6");
    assert_eq!(engine.advance(SOON), Ok(1), "the engine goes on");
    assert_eq!((dropped.load(Ordering::SeqCst), engine.stats().panicked), (8, 4));
}

/// A handler that takes nothing loses one payload per call.
#[test]
fn what_is_dropped_for_a_handler_that_takes_nothing_is_counted_if_it_panics_at_that() {
    let dropped = Arc::new(AtomicU32::new(0));
    let engine = typed(|_takes_none: Batch<'_, Boxed>| panic_as_planned());
    for number in 1..=4 {
        engine.schedule_detached(SOON, bomb(number, &dropped)).unwrap();
    }
    assert_eq!(engine.advance(SOON), Ok(4));
    assert_eq!(dropped.load(Ordering::SeqCst), 4, "each once");
    assert_eq!(engine.stats().panicked, 6, "each call, and 2 and 4");
}

#[test]
fn a_panic_whose_payload_panics_when_dropped_ends_there() {
    struct Vicious;
    impl Drop for Vicious {
        fn drop(&mut self) {
            panic_as_planned();
        }
    }
    let (engine, _clock) = manual();
    let ran = Arc::new(AtomicU32::new(0));
    // `resume_unwind` prints nothing.
    engine.schedule_detached(SOON, || panic::resume_unwind(Box::new(Vicious))).unwrap();
    let counter = ran.clone();
    let task = move || {
        counter.fetch_add(1, Ordering::SeqCst);
    };
    engine.schedule_detached(SOON * 2, task).unwrap();
    assert_eq!(engine.advance(SOON), Ok(1));
    assert_eq!(engine.advance(SOON), Ok(1));
    assert_eq!((ran.load(Ordering::SeqCst), engine.stats().panicked), (1, 1));
}

#[test]
fn a_panic_in_a_cancelled_payloads_drop_reaches_the_canceller_and_the_engine_goes_on() {
    let dropped = Arc::new(AtomicU32::new(0));
    let engine = typed(|batch: Batch<'_, Boxed>| batch.for_each(drop));
    let handle = engine.schedule(SOON, bomb(0, &dropped)).unwrap();
    let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| handle.cancel()));
    assert!(outcome.unwrap_err().is::<Planned>());
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    engine.check().unwrap();
    engine.schedule_detached(SOON, bomb(1, &dropped)).unwrap();
    assert_eq!(engine.advance(SOON), Ok(1));
    assert_eq!((engine.stats().cancelled, engine.stats().panicked, engine.len()), (1, 0, 0));
}

#[test]
fn a_panic_inside_a_turn_leaves_the_engine_usable_by_its_caller() {
    let (engine, _clock) = manual();
    let inner = engine.clone();
    let task = move || {
        inner.schedule_detached(SOON, || panic_as_planned()).unwrap();
        panic_as_planned();
    };
    engine.schedule_detached(SOON, task).unwrap();
    assert_eq!(engine.advance(SOON), Ok(1));
    assert_eq!(engine.len(), 1, "what it did before the panic stays done");
    assert_eq!(engine.turn(0).map(|turn| turn.fired), Ok(0), "we are no longer inside");
    assert_eq!(engine.advance(SOON), Ok(1));
    assert_eq!(engine.stats().panicked, 2);
    assert_eq!(engine.stop().unwrap().len(), 0);
}

#[test]
fn a_handler_that_panics_when_dropped_goes_with_its_engine_and_disturbs_no_thread() {
    quietly();
    let other = typed(|batch: Batch<'_, u64>| batch.for_each(drop));
    for goes_on in [false, true] {
        let dropped = Arc::new(AtomicU32::new(0));
        let bomb = Mutex::new(bomb(0, &dropped));
        let handler = move |batch: Batch<'_, u64>| {
            let _captured = &bomb;
            batch.for_each(drop);
        };
        let engine = Builder::new().shards(1).build_with_handler(handler).unwrap();
        let (used, is_used) = mpsc::channel();
        let (gone, is_gone) = mpsc::channel();
        let (inner, other) = (engine.clone(), other.clone());
        let user = spawn(move || {
            inner.schedule_detached(Duration::from_secs(3600), 1).unwrap();
            drop(inner);
            used.send(()).unwrap();
            is_gone.recv_timeout(PATIENCE).unwrap();
            if goes_on {
                // The thread tidies up after the engine that it used last.
                other.schedule_detached(SOON, 2).unwrap();
            }
        });
        is_used.recv_timeout(PATIENCE).unwrap();
        drop(engine);
        // The other thread still has a part of the engine, and nothing of its handler.
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        gone.send(()).unwrap();
        user.join().unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
    assert_eq!(other.advance(SOON), Ok(1));
}

#[test]
fn who_asks_is_told_of_each_panic_with_what_it_said() {
    type Told = (usize, Option<String>, bool);
    quietly();
    let log: Arc<Mutex<Vec<Told>>> = Arc::default();
    let of_callback = log.clone();
    let builder = Engine::builder().shards(2).manual_clock(&ManualClock::new());
    let tell = move |panic: &TaskPanic<'_>| {
        let message = panic.message().map(String::from);
        of_callback.lock().unwrap().push((panic.shard, message, panic.payload.is::<Planned>()));
    };
    let engine = builder.on_panic(tell).build().unwrap();
    engine.bind_thread(1).unwrap();
    // The hook that prints panics is left out of it.
    engine.schedule_detached(SOON, || panic::resume_unwind(Box::new("a text"))).unwrap();
    let owned = || panic::resume_unwind(Box::new(format!("a text of {}", 2)));
    engine.schedule_detached(SOON * 2, owned).unwrap();
    engine.schedule_detached(SOON * 3, || panic_as_planned()).unwrap();
    engine.schedule_detached(SOON * 4, || ()).unwrap();
    assert_eq!(engine.advance(SOON * 4), Ok(4));
    let text = |text: &str| (1, Some(text.to_owned()), false);
    assert_eq!(*log.lock().unwrap(), [text("a text"), text("a text of 2"), (1, None, true)]);
}

#[test]
fn a_callback_for_panics_that_panics_harms_no_task_and_is_no_tasks_panic() {
    quietly();
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.on_panic(|_| panic_as_planned()).build().unwrap();
    engine.schedule_detached(SOON, || panic_as_planned()).unwrap();
    (0..4).for_each(|_| engine.schedule_detached(SOON, || ()).unwrap());
    assert_eq!(engine.advance(SOON), Ok(5));
    assert_eq!(engine.stats().panicked, 1);
}
