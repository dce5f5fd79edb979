//! What becomes of sleeps, timeouts and intervals whose engine stops or goes.

use std::error::Error;
use std::future::{pending, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use support::hands::engine_by_hand;
use support::polling::{bell, poll};
use tickless::future::{Elapsed, Interval, Sleep, SleepError};
use tickless::{Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

const STOPPED: Poll<Result<(), SleepError>> = Poll::Ready(Err(SleepError::Stopped));

fn try_poll(sleep: &mut Sleep, waker: &Waker) -> Poll<Result<(), SleepError>> {
    sleep.poll_elapsed(&mut Context::from_waker(waker))
}

fn next(interval: &mut Interval, waker: &Waker) -> Poll<Option<std::time::Instant>> {
    Pin::new(interval).poll_next(&mut Context::from_waker(waker))
}

/// What `f` panics with.
fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).err().expect("it panics");
    panic.downcast_ref::<String>().expect("a panic with a text").clone()
}

#[test]
fn a_stop_wakes_who_waits_and_is_told_to_who_asks() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep(MS);
    assert_eq!(try_poll(&mut sleep, &waker), Poll::Pending);
    engine.schedule_detached(MS, || ()).unwrap();
    let returned = engine.stop().unwrap();
    assert_eq!((returned.len(), bell.woken()), (1, 1), "a sleep's timer is not the stopper's");
    assert!(!sleep.is_elapsed());
    assert_eq!(try_poll(&mut sleep, &waker), STOPPED);
    assert_eq!(try_poll(&mut sleep, &waker), STOPPED, "it stays so");
    sleep.reset(HOUR);
    assert_eq!(try_poll(&mut sleep, &waker), STOPPED);
    drop(sleep);
    assert_eq!(Arc::strong_count(&bell), 2);
}

#[test]
fn who_awaits_a_sleep_on_a_stopped_engine_panics() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let mut pending = engine.sleep(MS);
    assert_eq!(poll(&mut pending, &waker), Poll::Pending);
    let mut new = engine.sleep(MS);
    let mut interval = engine.interval_at(engine.now() + MS, MS);
    drop(engine.stop());
    let text = "a sleep cannot wait: the engine has stopped";
    assert_eq!(panic_of(|| poll(&mut pending, &waker)), text);
    assert_eq!(panic_of(|| poll(&mut new, &waker)), text);
    let cx = &mut Context::from_waker(&waker);
    let text = "an interval cannot tick: the engine has stopped";
    assert_eq!(panic_of(|| interval.poll_tick(cx)), text);
}

#[test]
fn a_deadline_that_passed_in_time_counts_although_the_engine_has_stopped() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let mut fired = engine.sleep(MS);
    assert_eq!(poll(&mut fired, &waker), Poll::Pending);
    let mut passed = engine.sleep(MS);
    engine.advance(MS).unwrap();
    engine.stop().unwrap();
    assert_eq!(poll(&mut fired, &waker), Poll::Ready(()));
    assert_eq!(poll(&mut passed, &waker), Poll::Ready(()));
}

#[test]
fn a_deadline_that_passed_after_the_stop_has_passed_all_the_same() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let (bell, waker) = bell();
    let mut sleep = engine.sleep(MS);
    assert_eq!(try_poll(&mut sleep, &waker), Poll::Pending);
    drop(engine.stop());
    assert_eq!(bell.woken(), 1);
    // The executor is late.
    clock.advance(MS);
    assert_eq!(try_poll(&mut sleep, &waker), Poll::Ready(Ok(())));
}

#[test]
fn the_last_engine_that_goes_wakes_who_waits() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep(MS);
    assert_eq!(try_poll(&mut sleep, &waker), Poll::Pending);
    let mut new = engine.sleep(MS);
    let mut interval = engine.interval(MS);
    let other = engine.clone();
    drop(engine);
    assert_eq!((try_poll(&mut sleep, &waker), bell.woken()), (Poll::Pending, 0));
    drop(other);
    assert_eq!((try_poll(&mut sleep, &waker), bell.woken()), (STOPPED, 1));
    // The thread itself turns to another engine, and lets go of all that it had of this one.
    let another = engine_by_hand();
    assert_eq!(poll(&mut another.sleep(MS), &waker), Poll::Pending);
    assert_eq!(try_poll(&mut new, &waker), STOPPED);
    sleep.reset(another.now());
    assert_eq!(try_poll(&mut sleep, &waker), STOPPED);
    assert_eq!(next(&mut interval, &waker), Poll::Ready(None));
}

#[test]
fn a_timeout_ends_with_what_kept_it_from_being_timed() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let mut first = engine.timeout(HOUR, pending::<()>());
    assert!(poll(&mut first, &waker).is_pending());
    let cause = |answer: Poll<Result<(), Elapsed>>| match answer {
        Poll::Ready(Err(error)) => error,
        other => panic!("{other:?}"),
    };
    let mut late = engine.timeout(HOUR, pending());
    drop(engine.stop());
    for timeout in [&mut first, &mut late] {
        let stopped = cause(poll(timeout, &waker));
        assert_eq!(stopped.cause(), Some(SleepError::Stopped));
        assert_eq!(stopped.to_string(), "the deadline could not be timed");
        assert_eq!(stopped.source().unwrap().to_string(), "the engine has stopped");
        assert_eq!(io::Error::from(stopped).kind(), io::ErrorKind::Other);
    }
    assert_eq!(io::Error::from(SleepError::Stopped).kind(), io::ErrorKind::Other);
}

#[test]
fn an_interval_ends_as_a_stream_when_its_engine_stops() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut interval = engine.interval(MS);
    let begin = engine.now();
    assert_eq!(next(&mut interval, &waker), Poll::Ready(Some(begin)));
    assert_eq!(next(&mut interval, &waker), Poll::Pending);
    drop(engine.stop());
    assert_eq!((next(&mut interval, &waker), bell.woken()), (Poll::Ready(None), 1));
    assert_eq!(next(&mut interval, &waker), Poll::Ready(None));
    let answer = pin!(poll_fn(|cx| interval.poll_try_tick(cx)));
    assert_eq!(poll(&mut { answer }, &waker), Poll::Ready(Err(SleepError::Stopped)));
}

#[test]
fn a_reset_that_meets_the_stop_is_told_by_the_next_poll() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    for delay in [MS, HOUR * 2] {
        let mut sleep = engine.sleep(HOUR);
        let _ = try_poll(&mut sleep, &waker);
        drop(engine.stop());
        sleep.reset(delay);
        assert_eq!(try_poll(&mut sleep, &waker), STOPPED);
    }
}
