//! Sleeps with a policy, on engines that refuse them: stopped or gone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use support::hands::engine_by_hand;
use support::polling::{bell, poll};
use tickless::Engine;
use tickless::future::{OnRefusal, PolicySleep};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

/// Sleeps of an hour, on an engine that has stopped, and on one that is gone since.
fn late(policy: OnRefusal) -> [(PolicySleep, Option<Engine>); 2] {
    [true, false].map(|is_kept| {
        let engine = engine_by_hand();
        let sleep = engine.sleep(HOUR).on_refusal(policy);
        engine.stop().unwrap();
        (sleep, Some(engine).filter(|_| is_kept))
    })
}

#[test]
fn a_sleep_that_is_not_refused_is_a_sleep() {
    for policy in [OnRefusal::Elapse, OnRefusal::Never, OnRefusal::Panic] {
        let (engine, (bell, waker)) = (engine_by_hand(), bell());
        let mut sleep = engine.sleep(MS * 10).on_refusal(policy);
        assert_eq!(sleep.deadline(), Some(engine.now() + MS * 10));
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        engine.advance(MS * 9).unwrap();
        sleep.reset(MS * 10);
        engine.advance(MS * 9).unwrap();
        assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Pending, 0));
        engine.advance(MS).unwrap();
        assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Ready(()), 1));
        assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()), "it stays so");
        assert_eq!(engine.stats().scheduled, 1);
    }
}

#[test]
fn one_that_elapses_lets_others_run_first_and_stays_ready_until_it_is_reset() {
    for (mut sleep, _engine) in late(OnRefusal::default()) {
        let (bell, waker) = bell();
        for resets in 1..4 {
            assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Pending, resets));
            assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Ready(()), resets));
            assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Ready(()), resets));
            sleep.reset(HOUR);
        }
    }
}

#[test]
fn one_that_never_elapses_wakes_nobody() {
    for (mut sleep, _engine) in late(OnRefusal::Never) {
        let (bell, waker) = bell();
        for _ in 0..3 {
            assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Pending, 0));
        }
    }
}

#[test]
fn a_sleep_whose_engine_stops_meanwhile_keeps_to_its_policy() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep(HOUR).on_refusal(OnRefusal::Elapse);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    drop(engine.stop().unwrap());
    assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Pending, 2));
    assert_eq!((poll(&mut sleep, &waker), bell.woken()), (Poll::Ready(()), 2));
}

#[test]
fn one_that_panics_does_so_and_says_why() {
    let (_, waker) = bell();
    for (mut sleep, _engine) in late(OnRefusal::Panic) {
        let polled = catch_unwind(AssertUnwindSafe(|| poll(&mut sleep, &waker)));
        let panic = *polled.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(panic, "a sleep cannot wait: the engine has stopped");
    }
}
