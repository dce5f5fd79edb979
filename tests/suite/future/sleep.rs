//! Sleeps and timeouts under a clock that is moved by hand: when they are ready, what they leave
//! behind, whom they wake.

use std::fmt::Debug;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use support::hands::engine_by_hand;
use support::parking::block_on;
use support::polling::{bell, poll};
use tickless::future::{FutureExt, Sleep, Timeout};
use tickless::{Builder, Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_sleep_is_ready_at_its_tick_and_not_before() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep(MS * 50);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    engine.advance(MS * 49).unwrap();
    assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Pending, 0));
    assert!(!sleep.is_elapsed());
    engine.advance(MS).unwrap();
    assert!(sleep.is_elapsed(), "also before it is polled");
    assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Ready(()), 1));
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()), "it stays ready");
}

#[test]
fn a_sleep_counts_from_the_call_that_made_it() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let begin = engine.now();
    let mut sleep = engine.sleep(MS * 50);
    engine.advance(MS * 30).unwrap();
    assert_eq!(
        (poll(&mut sleep, &waker), sleep.deadline()),
        (Poll::Pending, Some(begin + MS * 50))
    );
    engine.advance(MS * 20).unwrap();
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
}

#[test]
fn a_deadline_is_what_was_asked_for_to_the_nanosecond_also_when_the_engine_is_gone() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let begin = engine.now();
    let made = engine.sleep(MS * 5);
    let mut moved = engine.sleep(HOUR);
    assert_eq!(poll(&mut moved, &waker), Poll::Pending);
    let before_its_start = begin.checked_sub(HOUR).unwrap_or(begin);
    for at in [begin + HOUR + Duration::from_nanos(7), begin + MS, begin, before_its_start] {
        moved.reset(at);
        assert_eq!(moved.deadline(), Some(at));
    }
    assert_eq!(poll(&mut moved, &waker), Poll::Ready(()));
    moved.reset(MS * 3);
    drop(engine);
    assert_eq!(made.deadline(), Some(begin + MS * 5));
    assert_eq!(moved.deadline(), Some(begin + MS * 3));
}

#[test]
fn a_deadline_between_two_ticks_is_rounded_up() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep_until(engine.now() + MS * 7 + Duration::from_nanos(1));
    for _ in 0..7 {
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        engine.advance(MS).unwrap();
    }
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    engine.advance(MS).unwrap();
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
}

#[test]
fn what_has_passed_at_the_first_poll_needs_no_timer() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    engine.advance(HOUR).unwrap();
    let past = engine.now() - MS;
    let now = engine.now();
    let late = engine.sleep(MS);
    engine.advance(MS).unwrap();
    for mut sleep in [engine.sleep(Duration::ZERO), engine.sleep_until(past), late] {
        assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
    }
    assert_eq!(poll(&mut engine.sleep_until(now), &waker), Poll::Ready(()));
    assert_eq!((engine.stats().scheduled, bell.woken()), (0, 0));
}

#[test]
fn a_delay_too_long_to_represent_never_ends() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep(Duration::MAX);
    assert_eq!((poll(&mut sleep, &waker), sleep.deadline()), (Poll::Pending, None));
    engine.advance(HOUR * 1_000_000).unwrap();
    assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Pending, 0));
    sleep.reset(MS);
    engine.advance(MS).unwrap();
    assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Ready(()), 1));
    sleep.reset(MS);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    sleep.reset(Duration::MAX);
    engine.advance(HOUR * 1_000_000).unwrap();
    assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Pending, 1));
}

/// A poll after a reset asks the clock only if the new deadline may have passed.
#[test]
fn a_sleep_moved_far_ahead_waits_for_its_timer_and_any_other_for_the_clock() {
    let (clock, (_, waker)) = (ManualClock::new(), bell());
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let mut sleep = engine.sleep(HOUR);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    sleep.reset(MS * 99);
    clock.advance(MS * 99);
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()), "no turn was needed");
    sleep.reset(HOUR);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    sleep.reset(engine.now());
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()), "nor here");
    sleep.reset(HOUR);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    sleep.reset(MS * 100);
    clock.advance(MS * 100);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    while engine.turn(0).unwrap().fired == 0 {}
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
}

#[test]
fn a_sleep_that_is_never_polled_is_never_scheduled() {
    let engine = engine_by_hand();
    drop(engine.sleep(MS));
    drop(engine.timeout(MS, pending::<()>()));
    drop(engine.interval_at(engine.now() + MS, MS));
    let mut moved = engine.sleep(MS);
    moved.reset(HOUR);
    assert_eq!((engine.stats().scheduled, engine.len(), moved.is_elapsed()), (0, 0, false));
}

#[test]
fn dropping_a_sleep_cancels_its_timer_and_wakes_nobody() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep(MS);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    assert_eq!((engine.len(), Arc::strong_count(&bell)), (1, 3));
    drop(sleep);
    assert_eq!((engine.len(), Arc::strong_count(&bell)), (0, 2), "the waker is let go");
    assert_eq!((engine.advance(HOUR), bell.woken()), (Ok(0), 0));
    assert_eq!(engine.stats().cancelled, 1);
}

#[test]
fn a_sleep_that_is_dropped_after_it_fired_leaves_nothing() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    for is_polled in [false, true] {
        let mut sleep = engine.sleep(MS);
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        engine.advance(MS).unwrap();
        assert_eq!(Arc::strong_count(&bell), 2, "the waker goes when the timer fires");
        if is_polled {
            assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
        }
        drop(sleep);
        assert_eq!((engine.len(), Arc::strong_count(&bell)), (0, 2));
    }
    assert_eq!(engine.stats().cancelled, 0);
}

#[test]
fn a_sleep_may_be_dropped_by_what_is_due_at_the_same_tick() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    for round in 0..20_u32 {
        let mut sleep = engine.sleep(MS);
        let sleeps = Arc::new(Mutex::new(None));
        // Before it in some rounds and after it in others.
        let schedule = || {
            let sleeps = sleeps.clone();
            engine.schedule_detached(MS, move || drop(sleeps.lock().unwrap().take())).unwrap();
        };
        if round % 2 == 0 {
            schedule();
        }
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        *sleeps.lock().unwrap() = Some(sleep);
        if round % 2 == 1 {
            schedule();
        }
        engine.advance(MS).unwrap();
        assert_eq!((engine.len(), Arc::strong_count(&bell)), (0, 2));
        assert!(bell.woken() <= round + 1);
    }
}

/// A task that drops what it waits for as soon as it is woken.
struct Impatient(Mutex<Option<Sleep>>);

impl Wake for Impatient {
    fn wake(self: Arc<Impatient>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn a_sleep_may_be_dropped_by_its_own_wake_up() {
    let engine = engine_by_hand();
    let task = Arc::new(Impatient(Mutex::new(None)));
    let mut sleep = engine.sleep(MS);
    assert_eq!(poll(&mut sleep, &Waker::from(task.clone())), Poll::Pending);
    *task.0.lock().unwrap() = Some(sleep);
    assert_eq!(engine.advance(MS), Ok(1));
    assert!(task.0.lock().unwrap().is_none());
    assert_eq!((Arc::strong_count(&task), engine.stats().panicked), (1, 0));
}

#[test]
fn only_the_task_that_polled_last_is_woken() {
    let engine = engine_by_hand();
    let bells = [(); 4].map(|()| bell());
    let mut sleep = engine.sleep(MS * 4);
    for (_, waker) in &bells {
        assert_eq!(poll(&mut sleep, waker), Poll::Pending);
        assert_eq!(poll(&mut sleep, waker), Poll::Pending);
        engine.advance(MS / 2).unwrap();
    }
    let counts = bells.each_ref().map(|(bell, _)| Arc::strong_count(bell));
    assert_eq!(counts, [2, 2, 2, 3], "the others are let go");
    engine.advance(MS * 2).unwrap();
    assert_eq!(bells.each_ref().map(|(bell, _)| bell.woken()), [0, 0, 0, 1]);
    assert_eq!(poll(&mut sleep, &bells[0].1), Poll::Ready(()), "the thread that asks");
}

#[test]
fn a_reset_to_a_later_time_moves_the_timer_that_is_there() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep(MS * 10);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    for _ in 0..100 {
        engine.advance(MS * 9).unwrap();
        sleep.reset(engine.now() + MS * 10);
    }
    assert_eq!((engine.stats().scheduled, engine.len(), bell.woken()), (1, 1, 0));
    engine.advance(MS * 10).unwrap();
    assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Ready(()), 1));
}

#[test]
fn a_reset_to_an_earlier_time_makes_it_ready_then() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep(HOUR);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    sleep.reset(MS * 3);
    assert_eq!(engine.len(), 1);
    engine.advance(MS * 2).unwrap();
    assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Pending, 0));
    engine.advance(MS).unwrap();
    assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Ready(()), 1));
    assert_eq!(engine.len(), 0);
}

#[test]
fn a_reset_after_firing_waits_anew_whether_that_was_seen_or_not() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep(MS);
    for round in 1..=10 {
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        engine.advance(MS).unwrap();
        assert!(sleep.is_elapsed());
        if round % 2 == 0 {
            assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
        }
        sleep.reset(MS);
        assert!(!sleep.is_elapsed());
        assert_eq!(bell.woken(), round);
    }
}

#[test]
fn a_fire_that_is_still_on_its_way_does_not_end_what_the_sleep_was_reset_to() {
    let clock = ManualClock::new();
    let engine = Builder::new().shards(1).manual_clock(&clock).build().unwrap();
    let (bell, waker) = bell();
    let mut sleep = engine.sleep(MS * 2);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    let sleep = Arc::new(Mutex::new(sleep));
    // A task that is due before it, in the same batch: the engine has fired the timer of the sleep,
    // and nothing has rung.
    let (before, ring, its_waker) = (sleep.clone(), bell.clone(), waker.clone());
    let task = move || {
        let sleep = &mut *before.lock().unwrap();
        assert_eq!((poll(sleep, &its_waker), ring.woken()), (Poll::Ready(()), 0));
        sleep.reset(MS * 2);
        assert_eq!((poll(sleep, &its_waker), ring.woken()), (Poll::Pending, 0));
    };
    engine.schedule_detached(MS, task).unwrap();
    clock.advance(MS * 2);
    assert_eq!(engine.turn(0).unwrap().fired, 2);
    let sleep = &mut *sleep.lock().unwrap();
    assert_eq!((poll(sleep, &waker), bell.woken()), (Poll::Pending, 1));
    engine.advance(MS * 2).unwrap();
    assert_eq!((poll(sleep, &waker), bell.woken()), (Poll::Ready(()), 2));
}

#[test]
fn a_timeout_asks_its_future_first() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let mut answer = engine.timeout(Duration::ZERO, ready(7));
    assert_eq!(poll(&mut answer, &waker), Poll::Ready(Ok(7)));
    let mut none = engine.timeout(Duration::ZERO, pending::<()>());
    assert!(matches!(poll(&mut none, &waker), Poll::Ready(Err(_))));
    assert_eq!(engine.stats().scheduled, 0);
}

#[test]
fn a_timeout_that_is_over_has_no_timer_although_it_is_kept() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut answer = receiver.timeout_on(&engine, HOUR);
    assert!(poll(&mut answer, &waker).is_pending());
    assert_eq!(engine.len(), 1);
    sender.send(7).unwrap();
    assert_eq!(poll(&mut answer, &waker), Poll::Ready(Ok(Ok(7))));
    assert_eq!(engine.len(), 0);
}

#[test]
fn a_timeout_gives_its_future_back() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut answer = receiver.timeout_at_on(&engine, engine.now() + MS);
    assert!(poll(&mut answer, &waker).is_pending());
    engine.advance(MS).unwrap();
    assert!(matches!(poll(&mut answer, &waker), Poll::Ready(Err(_))));
    answer.get_mut().close();
    assert!(sender.send(7).is_err(), "the future that was lent is the one inside");
    assert!(poll(&mut answer.into_inner(), &waker).is_ready());
    assert_eq!(engine.len(), 0);
}

#[test]
fn futures_may_be_sent_and_shared_as_what_they_hold() {
    fn assert_all<T: Send + Sync + Unpin + 'static>(_: &T) {}
    let engine = engine_by_hand();
    assert_all(&engine.sleep(MS));
    assert_all(&engine.interval(MS));
    assert_all(&engine.timeout(MS, ready(())));
    fn assert_send<T: Send>(_: &T) {}
    let pinned: Timeout<_> = engine.timeout(MS, async { engine_by_hand() });
    assert_send(&pinned);
    let mut pinned = std::pin::pin!(pinned);
    assert!(poll(&mut pinned, Waker::noop()).is_ready());
}

#[test]
fn what_tasks_hold_can_be_told_apart_in_a_log() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let assert_prints = |value: &dyn Debug, begin: &str, end: &str| {
        let printed = format!("{value:?}");
        assert!(printed.starts_with(begin) && printed.ends_with(end), "{printed}");
    };
    let mut sleep = engine.sleep(MS);
    assert_prints(&sleep, "Sleep { deadline: Some(", "is_elapsed: false, .. }");
    assert!(poll(&mut sleep, &waker).is_pending());
    engine.advance(MS).unwrap();
    assert_prints(&sleep, "Sleep { deadline: Some(", "is_elapsed: true, .. }");
    assert_prints(&engine.interval(MS), "Interval { period: 1ms, next: Some(", "Burst, .. }");
    assert_prints(&engine.timeout(MS, ready(7)), "Timeout { inner: Ready(Some(7))", ".. } }");
}

#[test]
fn a_sleep_is_small() {
    assert!(size_of::<Sleep>() <= 6 * size_of::<u64>(), "{}", size_of::<Sleep>());
}

#[test]
fn the_process_has_one_engine_that_starts_on_first_use() {
    let begin = Instant::now();
    let mut sleep = tickless::sleep(MS * 2);
    block_on(&mut sleep);
    assert!(begin.elapsed() >= MS * 2);
    let engine: &Engine = Engine::try_global().unwrap();
    assert!(std::ptr::eq(engine, Engine::global()));
    // One that is polled only when it is due needs no timer.
    while engine.stats().fired == 0 {
        block_on(tickless::sleep(MS * 2));
    }
}
