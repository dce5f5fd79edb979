//! Slow tasks and panics: who is told, what they are told, and that it harms nobody.

use std::panic;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use support::patience::PATIENCE;
use support::planned::{Planned, panic_as_planned, quietly};
use tickless::dispatch::{Full, Pool};
use tickless::{Batch, Builder, Engine, ManualClock, SlowTask};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

/// What a callback was told.
type Log<T> = Arc<Mutex<Vec<T>>>;

fn locked<T: Clone>(log: &Log<T>) -> Vec<T> {
    log.lock().unwrap().clone()
}

/// A builder on a clock that stands still, whose slow tasks are those of 10 ms.
fn builder(clock: &ManualClock) -> (Builder, Log<SlowTask>) {
    let log = Log::default();
    let of_callback = log.clone();
    let tell = move |slow: &SlowTask| of_callback.lock().unwrap().push(*slow);
    let builder = Engine::builder().shards(1).manual_clock(clock);
    (builder.on_slow_task(MS * 10, tell), log)
}

/// An engine of closures like that.
fn manual() -> (Engine, ManualClock, Log<SlowTask>) {
    quietly();
    let clock = ManualClock::new();
    let (builder, log) = builder(&clock);
    (builder.build().unwrap(), clock, log)
}

/// An engine whose payloads are milliseconds that their handling takes.
fn typed(
    handler: impl Fn(&ManualClock, Batch<'_, u32>) + Send + Sync + 'static,
) -> (Engine<u32>, ManualClock, Log<SlowTask>) {
    quietly();
    let clock = ManualClock::new();
    let (builder, log) = builder(&clock);
    let of_handler = clock.clone();
    let handler = move |batch: Batch<'_, u32>| handler(&of_handler, batch);
    (builder.build_with_handler(handler).unwrap(), clock, log)
}

/// A task that takes so long.
fn lasting(clock: &ManualClock, for_ms: u32) -> impl FnOnce() + Send + 'static {
    let clock = clock.clone();
    move || clock.advance(MS * for_ms)
}

#[test]
fn a_task_is_slow_from_the_threshold_on_and_not_before() {
    let (engine, clock, log) = manual();
    let zero = engine.now();
    for (n, for_ms) in (1..).zip([9, 10, 0, 11, 1]) {
        engine.schedule_detached(MS * n, lasting(&clock, for_ms)).unwrap();
    }
    clock.advance(MS * 5);
    assert_eq!(engine.turn(0).unwrap().fired, 5);
    let told: Vec<_> = locked(&log)
        .iter()
        .map(|slow| (slow.took, slow.lateness, slow.waiting, slow.deadline, slow.panicked))
        .collect();
    // The second begins at 14, the fourth at 24.
    let second = (MS * 10, MS * 12, 3, zero + MS * 2, false);
    assert_eq!(told, [second, (MS * 11, MS * 20, 1, zero + MS * 4, false)]);
    assert!(locked(&log).iter().all(|slow| (slow.threshold, slow.shard) == (MS * 10, 0)));
    assert_eq!(engine.stats().slow, 2);
}

#[test]
fn without_a_threshold_nothing_is_slow_and_with_zero_everything_is() {
    let clock = ManualClock::new();
    let plain = Engine::builder().manual_clock(&clock).build().unwrap();
    plain.schedule_detached(MS, lasting(&clock, 1_000_000)).unwrap();
    assert_eq!((plain.advance(MS), plain.stats().slow), (Ok(1), 0));

    let builder = Engine::builder().manual_clock(&clock);
    let strict = builder.slow_threshold(Duration::ZERO).build().unwrap();
    (0..7).for_each(|_| strict.schedule_detached(MS, || ()).unwrap());
    assert_eq!((strict.advance(MS), strict.stats().slow), (Ok(7), 7));
}

#[test]
fn a_slow_task_that_panics_is_counted_as_both() {
    let (engine, clock, log) = manual();
    for (n, for_ms) in [(1, 30), (2, 3)] {
        let task = lasting(&clock, for_ms);
        let panics = move || {
            task();
            panic_as_planned();
        };
        engine.schedule_detached(MS * n, panics).unwrap();
    }
    engine.schedule_detached(MS * 3, lasting(&clock, 20)).unwrap();
    clock.advance(MS * 3);
    assert_eq!(engine.turn(0).unwrap().fired, 3);
    let told: Vec<_> =
        locked(&log).iter().map(|slow| (slow.took, slow.panicked, slow.waiting)).collect();
    assert_eq!(told, [(MS * 30, true, 2), (MS * 20, false, 0)]);
    let stats = engine.stats();
    assert_eq!((stats.slow, stats.panicked, stats.fired), (2, 2, 3));
}

#[test]
fn what_the_callback_takes_is_nobodys_time() {
    quietly();
    let clock = ManualClock::new();
    let of_callback = clock.clone();
    let tell = move |_: &SlowTask| of_callback.advance(MS * 500);
    let builder = Engine::builder().shards(1).manual_clock(&clock).on_slow_task(MS * 10, tell);
    let engine = builder.build().unwrap();
    for (n, for_ms) in (1..).zip([10, 9, 10, 0]) {
        engine.schedule_detached(MS * n, lasting(&clock, for_ms)).unwrap();
    }
    clock.advance(MS * 4);
    assert_eq!(engine.turn(0).unwrap().fired, 4);
    assert_eq!(engine.stats().slow, 2, "the task after a callback began when that was over");
}

#[test]
fn a_callback_that_panics_harms_no_task_and_is_no_tasks_panic() {
    quietly();
    let clock = ManualClock::new();
    let builder = Engine::builder().manual_clock(&clock);
    let builder = builder.on_slow_task(MS, |_| panic_as_planned());
    let engine = builder.on_panic(|_| panic_as_planned()).build().unwrap();
    let task = lasting(&clock, 5);
    let panics = move || {
        task();
        panic_as_planned();
    };
    engine.schedule_detached(MS, panics).unwrap();
    (0..4).for_each(|_| engine.schedule_detached(MS, lasting(&clock, 1)).unwrap());
    assert_eq!(engine.advance(MS), Ok(5));
    let stats = engine.stats();
    assert_eq!((stats.slow, stats.panicked), (5, 1));
}

#[test]
fn a_callback_may_use_the_engine() {
    let clock = ManualClock::new();
    let of_callback: Arc<Mutex<Option<Engine>>> = Arc::default();
    let engine_there = of_callback.clone();
    let tell = move |_: &SlowTask| {
        let engine = engine_there.lock().unwrap().clone().unwrap();
        engine.schedule_detached(MS, || ()).unwrap();
        assert!(engine.schedule(MS, || ()).unwrap().cancel());
        assert!(engine.stop().is_err() && engine.advance(MS).is_err(), "as in a task");
    };
    let builder = Engine::builder().manual_clock(&clock).on_slow_task(MS, tell);
    let engine = builder.build().unwrap();
    *of_callback.lock().unwrap() = Some(engine.clone());
    engine.schedule_detached(MS, lasting(&clock, 1)).unwrap();
    assert_eq!(engine.advance(MS * 3), Ok(2));
    assert_eq!((engine.stats().panicked, engine.stats().slow), (0, 1));
    drop(of_callback.lock().unwrap().take());
}

#[test]
fn a_handler_that_takes_all_at_once_has_the_last_answer_for_all() {
    let (engine, _clock, log) = typed(|clock, batch| {
        let all: Vec<u32> = batch.collect();
        all.iter().for_each(|&ms| clock.advance(MS * ms));
    });
    (0..5).for_each(|_| engine.schedule_detached(MS, 3).unwrap());
    assert_eq!(engine.advance(MS), Ok(5));
    assert_eq!(locked(&log).iter().map(|slow| slow.took).collect::<Vec<_>>(), [MS * 15]);
}

#[test]
fn payloads_that_are_taken_with_their_deadlines_are_timed_as_well() {
    let (engine, clock, log) = typed(|clock, mut batch| {
        while let Some(due) = batch.next_due() {
            clock.advance(MS * due.payload);
        }
    });
    for (n, ms) in [(1, 4), (2, 40), (3, 5)] {
        engine.schedule_detached(MS * n, ms).unwrap();
    }
    clock.advance(MS * 3);
    assert_eq!(engine.turn(0).unwrap().fired, 3);
    let told = locked(&log);
    assert_eq!(
        told.iter().map(|slow| (slow.took, slow.waiting)).collect::<Vec<_>>(),
        [(MS * 40, 1)]
    );
}

#[test]
fn a_handler_that_panics_before_it_takes_anything_is_nobodys_time() {
    let (engine, _clock, log) = typed(|clock, _| {
        clock.advance(MS * 50);
        panic_as_planned();
    });
    (0..3).for_each(|_| engine.schedule_detached(MS, 0).unwrap());
    assert_eq!(engine.advance(MS), Ok(3));
    assert!(locked(&log).is_empty());
    assert_eq!((engine.stats().slow, engine.stats().panicked), (0, 3));
}

#[test]
fn who_is_told_of_a_payload_that_was_slow_to_hand_over_may_ask_the_pool() {
    for full in [Full::Block, Full::RunInline, Full::Drop] {
        let pool = Pool::builder(full).threads(1).queue_bound(4).build().unwrap();
        let monitor = pool.monitor();
        let (told, tells) = mpsc::channel();
        // Each is slow.
        let tell = move |_: &SlowTask| told.send(monitor.stats().queued).unwrap();
        let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
        let engine = builder.on_slow_task(Duration::ZERO, tell).build_with_handler(pool).unwrap();
        let (done, is_done) = mpsc::channel();
        let hand_over = move || {
            (0..20).for_each(|_| engine.schedule_detached(MS, || ()).unwrap());
            done.send(engine.advance(MS)).unwrap();
        };
        thread::spawn(hand_over);
        assert_eq!(is_done.recv_timeout(PATIENCE), Ok(Ok(20)), "{full:?}");
        assert!(tells.try_iter().all(|queued| queued <= 4));
    }
}

// === panics ===

#[test]
fn who_asks_is_told_of_each_panic_with_what_it_said() {
    quietly();
    let log: Log<(usize, Option<String>, bool)> = Log::default();
    let of_callback = log.clone();
    let builder = Engine::builder().shards(2).manual_clock(&ManualClock::new());
    let tell = move |panic: &tickless::TaskPanic<'_>| {
        let message = panic.message().map(String::from);
        of_callback.lock().unwrap().push((panic.shard, message, panic.payload.is::<Planned>()));
    };
    let engine = builder.on_panic(tell).build().unwrap();
    engine.bind_thread(1).unwrap();
    // The hook that prints panics is left out of it.
    engine.schedule_detached(MS, || panic::resume_unwind(Box::new("a text"))).unwrap();
    let owned = || panic::resume_unwind(Box::new(format!("a text of {}", 2)));
    engine.schedule_detached(MS * 2, owned).unwrap();
    engine.schedule_detached(MS * 3, || panic_as_planned()).unwrap();
    engine.schedule_detached(MS * 4, || ()).unwrap();
    assert_eq!(engine.advance(MS * 4), Ok(4));
    let text = |text: &str| (1, Some(text.to_owned()), false);
    assert_eq!(locked(&log), [text("a text"), text("a text of 2"), (1, None, true)]);
}

#[test]
fn on_an_engine_of_its_own_threads_slow_tasks_are_told_on_the_reapers_thread() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let tell = move |slow: &SlowTask| {
        let name = std::thread::current().name().map(String::from);
        sender.send((name, slow.shard, slow.took >= slow.threshold)).unwrap();
    };
    let builder = Engine::builder().shards(2).thread_name("producer").on_slow_task(MS, tell);
    let engine = builder.takeover(None).build().unwrap();
    engine.bind_thread(1).unwrap();
    let task = || {
        let begun = std::time::Instant::now();
        while begun.elapsed() < MS * 2 {}
    };
    engine.schedule_detached(MS, task).unwrap();
    let told = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(told, (Some("producer-1".to_owned()), 1, true));
    engine.stop().unwrap();
}

/// A report is nobody's task: what is behind it goes on in order.
#[test]
fn a_report_that_lasts_keeps_no_task_that_was_taken() {
    let clock = ManualClock::new();
    let ((told, tell), (release, released)) = (mpsc::channel(), mpsc::channel());
    let (told, released) = (Mutex::new(Some(told)), Mutex::new(released));
    let report = move |_: &SlowTask| {
        // The first one lasts.
        if let Some(told) = told.lock().unwrap().take() {
            told.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
    };
    let builder = Engine::builder().shards(1).manual_clock(&clock);
    let engine = builder.on_slow_task(MS * 10, report).build().unwrap();
    let begun: Log<u32> = Log::default();
    for (nth, lasts_ms) in [(1, 10), (2, 0), (3, 0)] {
        let (begun, task) = (begun.clone(), lasting(&clock, lasts_ms));
        let task = move || {
            begun.lock().unwrap().push(nth);
            task();
        };
        engine.schedule_detached(MS * nth, task).unwrap();
    }
    thread::scope(|threads| {
        let turner = threads.spawn(|| engine.advance(MS * 3).unwrap());
        tell.recv_timeout(PATIENCE).unwrap();
        // As a thread that watches does.
        engine.take_over(0).unwrap();
        while locked(&begun).len() < 3 {
            engine.turn(0).unwrap();
        }
        release.send(()).unwrap();
        turner.join().unwrap();
    });
    assert_eq!(locked(&begun), [1, 2, 3]);
}
