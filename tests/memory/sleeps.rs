//! What sleeps allocate: nothing, once the engine has memory for their timers.

use std::future::{pending, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::settled::assert_settles;
use support::alone::alone;
use support::counting::{free_what_waits_for_readers, here, live, made_here};
use support::hands::engine_by_hand;
use support::polling::{bell, poll};
use support::scaled;

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

/// Asserts that a step allocates `blocks` blocks, once it has run for a while, and keeps none.
fn allocates(blocks: u64, what: &str, mut step: impl FnMut()) {
    let steps = scaled(2000);
    (0..1000).for_each(|_| step());
    assert_settles((blocks * steps, 0), what, || {
        let (made, bytes) = (made_here(), here().bytes);
        (0..steps).for_each(|_| step());
        (made_here() - made, here().bytes - bytes)
    });
}

#[test]
fn a_sleep_costs_no_allocation_however_often_it_is_polled() {
    let _alone = alone();
    let (engine, wakers) = (engine_by_hand(), [bell().1, bell().1]);
    let step = |delay, polls| {
        let mut sleep = engine.sleep(delay);
        let mut seen = 0;
        (0..polls).for_each(|n| seen += u32::from(poll(&mut sleep, &wakers[n % 2]).is_pending()));
        assert_eq!(seen, polls as u32);
    };
    allocates(0, "never polled", || step(HOUR, 0));
    allocates(0, "polled once", || step(HOUR, 1));
    allocates(0, "polled ten times, by two tasks", || step(HOUR, 10));
    allocates(0, "awaited to its end", || {
        let mut sleep = engine.sleep(MS);
        assert_eq!(poll(&mut sleep, &wakers[0]), Poll::Pending);
        engine.advance(MS).unwrap();
        assert_eq!(poll(&mut sleep, &wakers[1]), Poll::Ready(()));
    });
    allocates(0, "past at its first poll, or put off once", || {
        let mut sleep = engine.sleep(Duration::ZERO);
        assert!((0..2).any(|_| poll(&mut sleep, &wakers[0]).is_ready()));
    });
}

#[test]
fn a_reset_costs_no_allocation_before_or_after_firing() {
    let _alone = alone();
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let mut sleep = engine.sleep(HOUR);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    allocates(0, "to a later time", || {
        engine.advance(MS).unwrap();
        sleep.reset(HOUR);
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    });
    allocates(0, "after firing", || {
        sleep.reset(MS);
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        engine.advance(MS).unwrap();
        assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
    });
}

#[test]
fn a_tick_costs_no_allocation() {
    let _alone = alone();
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut interval = engine.interval(MS * 3);
    let cx = &mut Context::from_waker(&waker);
    assert!(interval.poll_tick(cx).is_ready());
    allocates(0, "a tick", || {
        assert!(interval.poll_tick(cx).is_pending());
        engine.advance(MS * 3).unwrap();
        assert!(interval.poll_tick(cx).is_ready());
    });
    assert!(u64::from(bell.woken()) >= 1000 + scaled(2000));
}

#[test]
fn a_timeout_that_is_not_needed_costs_no_allocation() {
    let _alone = alone();
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    allocates(0, "ready at once", || {
        assert_eq!(poll(&mut engine.timeout(HOUR, ready(7)), &waker), Poll::Ready(Ok(7)));
    });
    assert_eq!(engine.stats().scheduled, 0);
    allocates(0, "not ready", || {
        assert!(poll(&mut engine.timeout(HOUR, pending::<()>()), &waker).is_pending());
    });
}

#[test]
fn a_delay_queue_costs_no_allocation_once_it_has_had_as_many_items() {
    let _alone = alone();
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut queue = engine.delay_queue();
    let cx = &mut Context::from_waker(&waker);
    allocates(0, "items that come out, are removed and are moved", || {
        let removed = queue.insert([7; 3], HOUR);
        let moved = queue.insert([8; 3], HOUR);
        queue.insert([9; 3], MS * 2);
        assert!(queue.poll_expired(cx).is_pending());
        assert!(queue.remove(removed).is_some() && queue.reset(moved, MS));
        assert!(queue.poll_expired(cx).is_pending());
        engine.advance(MS * 2).unwrap();
        assert!(queue.poll_expired(cx).is_ready() && queue.poll_expired(cx).is_ready());
        assert!(matches!(queue.poll_expired(cx), Poll::Ready(None)));
    });
    assert!(u64::from(bell.woken()) >= 1000 + scaled(2000));
}

#[test]
fn sleeps_that_end_with_their_engine_leave_nothing_behind() {
    let _alone = alone();
    let (_, waker) = bell();
    let build_and_drop = || {
        let engine = engine_by_hand();
        let mut sleeps: Vec<_> = (1..=10).map(|n| engine.sleep(MS * n)).collect();
        sleeps.iter_mut().for_each(|sleep| assert!(poll(sleep, &waker).is_pending()));
        engine.advance(MS * 5).unwrap();
        sleeps.drain(3..).for_each(drop);
        let mut sleep = engine.sleep(HOUR);
        assert!(poll(&mut sleep, &waker).is_pending());
        drop(engine);
        drop(sleep);
    };
    build_and_drop();
    free_what_waits_for_readers();
    let before = live();
    let engines = 100;
    (0..engines).for_each(|_| build_and_drop());
    free_what_waits_for_readers();
    let left = live().blocks - before.blocks;
    assert!(left < engines / 2, "{left} blocks of {engines} engines");
}
