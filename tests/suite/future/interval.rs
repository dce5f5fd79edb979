//! Intervals under a clock that is moved by hand, against times that were worked out on paper.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream;
use futures_util::{FutureExt as _, StreamExt};
use support::hands::engine_by_hand;
use support::polling::{bell, poll};
use tickless::Engine;
use tickless::future::Interval;
use tickless::future::MissedTickBehavior::{self, Burst, Delay, Skip};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

/// Advances until the interval ticks; the clock then, and the tick's own time, in milliseconds
/// from `begin`.
fn tick(engine: &Engine, interval: &mut Interval, begin: Instant) -> (u128, u128) {
    let ms = |instant: Instant| (instant - begin).as_millis();
    let (_, waker) = bell();
    for _ in 0..100_000 {
        if let Poll::Ready(due) = interval.poll_tick(&mut Context::from_waker(&waker)) {
            return (ms(engine.now()), ms(due));
        }
        engine.advance(MS).unwrap();
    }
    panic!("no tick");
}

/// Ticks with a task that takes as long as `busy` after each; when each was handed out, and when
/// it was due, in milliseconds.
fn ticks(behavior: MissedTickBehavior, period: u32, busy: &[u32]) -> (Vec<u128>, Vec<u128>) {
    let engine = engine_by_hand();
    let begin = engine.now();
    let mut interval = engine.interval(MS * period);
    interval.set_missed_tick_behavior(behavior);
    let one = |&busy: &u32| {
        let (at, due) = tick(&engine, &mut interval, begin);
        engine.advance(MS * busy).unwrap();
        (at, due)
    };
    busy.iter().map(one).unzip()
}

#[test]
fn ticks_do_not_drift_while_the_task_keeps_up() {
    for behavior in [Burst, Delay, Skip] {
        let (at, due) = ticks(behavior, 10, &[0, 3, 9, 10, 0, 1]);
        assert_eq!(at, [0, 10, 20, 30, 40, 50], "{behavior:?}");
        assert_eq!(due, at);
    }
}

#[test]
fn a_burst_makes_up_for_what_was_missed() {
    let (at, due) = ticks(Burst, 10, &[25, 0, 0, 0, 47, 0, 0, 0, 0, 0]);
    assert_eq!(at, [0, 25, 25, 30, 40, 87, 87, 87, 87, 90]);
    assert_eq!(due, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
}

#[test]
fn a_delay_begins_anew_after_what_was_missed() {
    let (at, due) = ticks(Delay, 10, &[25, 0, 0, 47, 0, 0]);
    assert_eq!(at, [0, 25, 35, 45, 92, 102]);
    assert_eq!(due, [0, 10, 35, 45, 55, 102]);
}

#[test]
fn a_skip_leaves_out_what_was_missed() {
    let (at, due) = ticks(Skip, 10, &[25, 0, 0, 47, 0, 0, 20, 0]);
    assert_eq!(at, [0, 25, 30, 40, 87, 90, 100, 120]);
    assert_eq!(due, [0, 10, 30, 40, 50, 90, 100, 110]);
}

#[test]
fn a_tick_that_is_a_little_late_counts_as_in_time() {
    // 5 ms and the engine's tick of 1 ms.
    for (behavior, after_7) in [(Burst, 20), (Delay, 27), (Skip, 20)] {
        let (at, _) = ticks(behavior, 10, &[16, 0, 0]);
        assert_eq!(at, [0, 16, 20], "{behavior:?}");
        let (at, _) = ticks(behavior, 10, &[17, 0, 0]);
        assert_eq!(at, [0, 17, after_7], "{behavior:?}");
    }
}

#[test]
fn a_period_longer_than_any_number_of_nanoseconds_is_skipped_too() {
    let engine = engine_by_hand();
    let mut interval = engine.interval(Duration::from_secs(1 << 40));
    interval.set_missed_tick_behavior(Skip);
    engine.advance(HOUR).unwrap();
    assert_eq!(tick(&engine, &mut interval, engine.now() - HOUR), (3_600_000, 0));
    assert_eq!(poll(&mut pin!(interval.tick()), Waker::noop()), Poll::Pending);
    let mut endless = engine.interval(Duration::MAX);
    assert!(endless.tick().now_or_never().is_some());
    assert!(endless.tick().now_or_never().is_none());
    engine.advance(HOUR * 1_000_000).unwrap();
    assert!(endless.tick().now_or_never().is_none(), "there is no second tick");
}

#[test]
fn the_first_tick_is_at_once_or_at_the_start_that_was_given() {
    let engine = engine_by_hand();
    let begin = engine.now();
    assert_eq!(tick(&engine, &mut engine.interval(MS * 10), begin), (0, 0));
    let mut later = engine.interval_at(begin + MS * 25, MS * 10);
    assert_eq!(tick(&engine, &mut later, begin), (25, 25));
    assert_eq!(tick(&engine, &mut later, begin), (35, 35));
    let mut past = engine.interval_at(begin + MS * 30, MS * 10);
    assert_eq!(tick(&engine, &mut past, begin), (35, 30));
    assert_eq!(tick(&engine, &mut past, begin), (40, 40));
}

#[test]
fn a_period_of_zero_is_refused() {
    let engine = engine_by_hand();
    let now = engine.now();
    assert!(catch_unwind(AssertUnwindSafe(|| engine.interval(Duration::ZERO))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| engine.interval_at(now, Duration::ZERO))).is_err());
}

#[test]
fn an_interval_says_what_it_was_told() {
    let mut interval = engine_by_hand().interval(MS * 7);
    assert_eq!((interval.period(), interval.missed_tick_behavior()), (MS * 7, Burst));
    for behavior in [Skip, Delay, Burst] {
        interval.set_missed_tick_behavior(behavior);
        assert_eq!(interval.missed_tick_behavior(), behavior);
    }
}

#[test]
fn resets_begin_anew() {
    let engine = engine_by_hand();
    let begin = engine.now();
    let mut interval = engine.interval(MS * 10);
    let next = |interval: &mut Interval| tick(&engine, interval, begin);
    assert_eq!(next(&mut interval), (0, 0));
    engine.advance(MS * 4).unwrap();
    interval.reset();
    assert_eq!((next(&mut interval), next(&mut interval)), ((14, 14), (24, 24)));
    interval.reset_immediately();
    assert_eq!((next(&mut interval), next(&mut interval)), ((24, 24), (34, 34)));
    interval.reset_after(MS * 3);
    assert_eq!((next(&mut interval), next(&mut interval)), ((37, 37), (47, 47)));
    interval.reset_at(begin + MS * 90);
    assert_eq!((next(&mut interval), next(&mut interval)), ((90, 90), (100, 100)));
    // While somebody waits for a tick, too.
    let (bell, waker) = bell();
    assert!(interval.poll_tick(&mut Context::from_waker(&waker)).is_pending());
    interval.reset_after(MS * 2);
    engine.advance(MS * 2).unwrap();
    assert_eq!((bell.woken(), next(&mut interval)), (1, (102, 102)));
}

#[test]
fn a_tick_that_nobody_was_given_is_still_to_come() {
    let engine = engine_by_hand();
    let begin = engine.now();
    let mut interval = engine.interval_at(begin + MS * 10, MS * 10);
    let (_, waker) = bell();
    {
        let mut tick = pin!(interval.tick());
        assert!(poll(&mut tick, &waker).is_pending());
        engine.advance(MS * 10).unwrap();
        // Dropped after the timer has fired, before it was polled again.
    }
    assert_eq!(interval.tick().now_or_never(), Some(begin + MS * 10));
    assert_eq!(interval.tick().now_or_never(), None);
    assert_eq!(engine.len(), 1, "the timer is the interval's");
    drop(interval);
    assert_eq!(engine.len(), 0);
}

#[test]
fn an_interval_is_a_stream_of_its_ticks() {
    let engine = engine_by_hand();
    let begin = engine.now();
    let mut interval = engine.interval(MS * 10);
    assert_eq!(interval.size_hint(), (0, None));
    let mut seen = Vec::new();
    for _ in 0..45 {
        while let Some(Some(due)) = interval.next().now_or_never() {
            seen.push(due);
        }
        engine.advance(MS).unwrap();
    }
    assert_eq!(seen, [0, 10, 20, 30, 40].map(|ms| begin + MS * ms));
}

/// pgdog#1017: with tokio's timer, what ticks stood still once a process was 2^30 ms old, because
/// the wheel took a sleep of the longest delay for the next one due.
#[test]
fn an_interval_goes_on_past_each_power_of_two_beside_the_longest_sleep() {
    let engine = engine_by_hand();
    let (begin, (_, waker)) = (engine.now(), bell());
    let mut longest = engine.sleep(Duration::MAX);
    assert!(poll(&mut longest, &waker).is_pending());
    let mut interval = engine.interval(MS * 333);
    interval.set_missed_tick_behavior(Skip);
    for bits in [6, 12, 18, 24, 30, 36, 42] {
        let old = begin + Duration::from_millis(1 << bits);
        engine.advance(old - engine.now() - MS * 50).unwrap();
        // What was missed, and then what is in time, before that age, at it, and after it.
        tick(&engine, &mut interval, begin);
        for _ in 0..5 {
            let (at, due) = tick(&engine, &mut interval, begin);
            assert_eq!((at, at % 333), (due, 0), "2^{bits} ms");
        }
        assert!(engine.now() > old);
    }
    assert!(poll(&mut longest, &waker).is_pending());
}
