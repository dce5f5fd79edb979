//! The engine of code that names none: what a thread or a future has entered, or the process's.

use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use support::polling::{bell, poll};
use tickless::future::FutureExt;
use tickless::{Engine, ManualClock};

const SECOND: Duration = Duration::from_secs(1);

const HOUR: Duration = Duration::from_secs(3600);

/// An engine whose clock is ahead of that of the process's engine by so much.
fn ahead_by(ahead: Duration) -> Engine {
    let clock = ManualClock::new();
    clock.advance(ahead);
    Engine::builder().manual_clock(&clock).shards(1).build().unwrap()
}

/// Asserts that `engine` is the ambient one, by all that consults it.
#[track_caller]
fn assert_ambient(engine: &Engine) {
    // Several tests look at the process's engine.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, waker) = bell();
    let before = engine.len();
    let mut sleep = tickless::sleep(HOUR);
    let mut until = tickless::sleep_until(engine.now() + HOUR);
    let mut timeout = tickless::timeout(HOUR, pending::<()>());
    let mut timeout_at = tickless::timeout_at(engine.now() + HOUR, pending::<()>());
    let (mut late, mut late_at) =
        (pending::<()>().timeout(HOUR), pending::<()>().timeout_at(engine.now() + HOUR));
    let mut interval = tickless::interval(HOUR);
    let mut interval_at = tickless::interval_at(engine.now() + HOUR, HOUR);
    assert!(poll(&mut sleep, &waker).is_pending() && poll(&mut until, &waker).is_pending());
    assert!(poll(&mut timeout, &waker).is_pending() && poll(&mut timeout_at, &waker).is_pending());
    assert!(poll(&mut late, &waker).is_pending() && poll(&mut late_at, &waker).is_pending());
    let mut cx = Context::from_waker(&waker);
    assert!(interval.poll_tick(&mut cx).is_ready() && interval.poll_tick(&mut cx).is_pending());
    assert!(interval_at.poll_tick(&mut cx).is_pending());
    assert_eq!(engine.len(), before + 8, "all eight wait here");
    if engine.clock_is_manual() {
        assert_eq!(tickless::now(), engine.now());
        assert_eq!(sleep.deadline(), Some(engine.now() + HOUR), "by its clock");
    }
}

trait ClockIsManual {
    fn clock_is_manual(&self) -> bool;
}

impl ClockIsManual for Engine {
    fn clock_is_manual(&self) -> bool {
        self.advance(Duration::ZERO).is_ok()
    }
}

#[test]
fn a_thread_uses_what_it_has_entered_last_and_then_what_it_had_before() {
    let (one, two) = (ahead_by(SECOND * 1000), ahead_by(SECOND * 2000));
    assert_ambient(Engine::global());
    {
        let _one = one.enter();
        assert_ambient(&one);
        {
            let _two = two.enter();
            assert_ambient(&two);
            let _one_again = one.enter();
            assert_ambient(&one);
        }
        assert_ambient(&one);
    }
    assert_ambient(Engine::global());
}

#[test]
fn other_threads_are_not_affected() {
    let engine = ahead_by(SECOND * 1000);
    let _entered = engine.enter();
    thread::scope(|threads| {
        threads.spawn(|| assert_ambient(Engine::global()));
    });
    assert_ambient(&engine);
}

#[test]
fn a_thread_that_entered_for_good_keeps_its_engine_beneath_the_guards() {
    thread::spawn(|| {
        let (own, other, third) = (ahead_by(SECOND), ahead_by(SECOND * 1000), ahead_by(SECOND * 9));
        let guard = other.enter();
        own.enter_thread();
        assert_ambient(&other);
        drop(guard);
        assert_ambient(&own);
        third.enter_thread();
        assert_ambient(&third);
    })
    .join()
    .unwrap();
    assert_ambient(Engine::global());
}

#[test]
fn what_is_created_keeps_its_engine_whichever_thread_polls_it() {
    let engine = ahead_by(SECOND * 1000);
    let (bell, waker) = bell();
    let mut sleep = {
        let _entered = engine.enter();
        tickless::sleep(SECOND)
    };
    let mut sleep = thread::spawn(move || {
        assert!(poll(&mut sleep, &waker).is_pending());
        sleep
    })
    .join()
    .unwrap();
    assert_eq!(engine.advance(SECOND).unwrap(), 1);
    assert_eq!(bell.woken(), 1);
    assert!(sleep.is_elapsed());
    sleep.reset(SECOND);
    assert_eq!(sleep.deadline(), Some(engine.now() + SECOND), "a reset asks the same engine");
}

#[test]
fn a_future_finds_its_engine_at_each_poll_on_any_thread() {
    let engine = ahead_by(SECOND * 1000);
    let ours = engine.clone();
    let mut polls = 0;
    let mut future = engine.entered(poll_fn(move |_| {
        assert_ambient(&ours);
        polls += 1;
        if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
    }));
    let (_, waker) = bell();
    assert!(poll(&mut future, &waker).is_pending());
    assert_ambient(Engine::global());
    thread::scope(|threads| {
        threads.spawn(|| {
            assert!(poll(&mut future, &waker).is_pending());
            assert_ambient(Engine::global());
        });
    });
    let other = ahead_by(SECOND);
    let _other = other.enter();
    assert!(poll(&mut future, &waker).is_ready());
    assert_ambient(&other);
}

/// Asks which engine is ambient when it is made, polled and dropped.
struct Asks(Engine);

impl Future for Asks {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        assert_ambient(&self.0);
        Poll::Pending
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        assert_ambient(&self.0);
    }
}

struct IntoAsks(Engine);

impl IntoFuture for IntoAsks {
    type Output = ();
    type IntoFuture = Asks;

    fn into_future(self) -> Asks {
        assert_ambient(&self.0);
        Asks(self.0)
    }
}

#[test]
fn a_future_finds_its_engine_when_it_is_made_and_dropped() {
    let engine = ahead_by(SECOND * 1000);
    let (_, waker) = bell();
    let mut polled = engine.entered(IntoAsks(engine.clone()));
    assert!(poll(&mut polled, &waker).is_pending());
    drop(polled);
    drop(engine.entered(Asks(engine.clone())));
    assert_ambient(Engine::global());
}

#[test]
fn a_panic_leaves_what_was_entered() {
    let engine = ahead_by(SECOND * 1000);
    let (_, waker) = bell();
    let mut future = engine.entered(poll_fn(|_| -> Poll<()> { panic!("as planned") }));
    catch_unwind(AssertUnwindSafe(|| poll(&mut future, &waker))).unwrap_err();
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _entered = engine.enter();
        panic!("as planned");
    }));
    assert_ambient(Engine::global());
}

#[test]
fn guards_that_are_dropped_out_of_order_are_noticed() {
    thread::spawn(|| {
        let (one, two) = (ahead_by(SECOND), ahead_by(SECOND * 2));
        let outer = one.enter();
        let inner = two.enter();
        let panic = catch_unwind(AssertUnwindSafe(|| drop(outer))).unwrap_err();
        let message = panic.downcast_ref::<&str>().unwrap();
        assert!(message.contains("created later"), "{message}");
        assert_ambient(Engine::global());
        drop(inner);
        assert_ambient(Engine::global());
        one.enter_thread();
        assert_ambient(&one);
        let again = two.enter();
        assert_ambient(&two);
        drop(again);
        assert_ambient(&one);
    })
    .join()
    .unwrap();
}

#[test]
fn what_an_engine_that_is_gone_was_to_time_ends_as_with_one_that_stopped() {
    let engine = ahead_by(SECOND);
    let mut future = engine.entered(poll_fn(|cx| {
        let mut sleep = tickless::sleep(SECOND);
        let _now = tickless::now();
        sleep.poll_elapsed(cx).map(|ended| assert!(ended.is_err()))
    }));
    drop(engine);
    let (_, waker) = bell();
    assert!(poll(&mut future, &waker).is_ready());
}

#[test]
fn a_thread_that_ends_still_knows_what_it_entered() {
    struct AtTheEnd(Engine);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            assert_ambient(&self.0);
            let other = ahead_by(SECOND * 5);
            let _entered = other.enter();
            assert_ambient(&other);
        }
    }
    thread_local!(static LATE: std::cell::RefCell<Option<AtTheEnd>> = const {
        std::cell::RefCell::new(None)
    });
    let engine = ahead_by(SECOND);
    let ours = engine.clone();
    thread::spawn(move || {
        ours.enter_thread();
        LATE.set(Some(AtTheEnd(ours.clone())));
    })
    .join()
    .unwrap();
    assert_eq!(engine.stats().cancelled, 8, "the assertion was made");
}
