//! What tokio's own tests ask of its intervals, asked of ours. The clock is moved by hand, and no
//! turn is made but in `advance`: what a poll can know it knows by itself.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use support::hands::engine_by_hand;
use support::polling::{bell, poll};
use tickless::Engine;
use tickless::future::Interval;
use tickless::future::MissedTickBehavior::{self, Burst, Delay, Skip};

const MS: Duration = Duration::from_millis(1);

/// An interval of 300 ms from `begin` on, with its first tick taken.
struct Ticks {
    engine: Engine,
    begin: Instant,
    interval: Interval,
}

impl Ticks {
    fn new(behavior: MissedTickBehavior) -> Ticks {
        let engine = engine_by_hand();
        let begin = engine.now();
        let mut interval = engine.interval_at(begin, 300 * MS);
        interval.set_missed_tick_behavior(behavior);
        let mut ticks = Ticks { engine, begin, interval };
        ticks.after(0, &[0]);
        ticks
    }

    /// So many milliseconds later it has these ticks, and no more. Nothing turns after none.
    fn after(&mut self, ms: u32, ticks: &[u32]) {
        if ms > 0 {
            self.engine.advance(ms * MS).unwrap();
        }
        let (_, waker) = bell();
        let mut cx = Context::from_waker(&waker);
        for &tick in ticks {
            let due = Poll::Ready(self.begin + tick * MS);
            assert_eq!(self.interval.poll_tick(&mut cx), due);
        }
        assert_eq!(self.interval.poll_tick(&mut cx), Poll::Pending);
    }
}

#[test]
fn ticks_that_were_missed_are_made_up_for_put_off_or_left_out() {
    let mut burst = Ticks::new(Burst);
    for (ms, ticks) in [(100, &[][..]), (200, &[300]), (650, &[600, 900]), (200, &[])] {
        burst.after(ms, ticks);
    }
    for (ms, tick) in [(50, 1200), (300, 1500), (300, 1800)] {
        burst.after(ms, &[tick]);
    }

    let mut delay = Ticks::new(Delay);
    for (ms, ticks) in [(100, &[][..]), (200, &[300]), (650, &[600]), (100, &[])] {
        delay.after(ms, ticks);
    }
    for (ms, tick) in [(200, 1250), (300, 1550), (300, 1850)] {
        delay.after(ms, &[tick]);
    }

    let mut skip = Ticks::new(Skip);
    for (ms, ticks) in [(100, &[][..]), (200, &[300]), (650, &[600])] {
        skip.after(ms, ticks);
    }
    for (ms, tick) in [(250, 1200), (300, 1500), (300, 1800)] {
        skip.after(ms, &[tick]);
    }
}

/// An interval at 400 ms, 100 ms after its second tick, and polled there.
fn waiting() -> Ticks {
    let mut ticks = Ticks::new(Burst);
    ticks.after(100, &[]);
    ticks.after(200, &[300]);
    ticks.after(100, &[]);
    ticks
}

#[test]
fn a_reset_begins_anew_from_now() {
    let mut ticks = waiting();
    ticks.interval.reset();
    ticks.after(250, &[]);
    ticks.after(50, &[700]);
    ticks.after(300, &[1000]);
}

#[test]
fn a_reset_to_at_once_ticks_at_the_next_poll() {
    let mut ticks = waiting();
    ticks.interval.reset_immediately();
    ticks.after(0, &[400]);
    ticks.after(100, &[]);
    ticks.after(200, &[700]);
}

#[test]
fn a_reset_to_a_time_ticks_then_and_each_period_after_it() {
    let mut ticks = waiting();
    ticks.interval.reset_after(20 * MS);
    ticks.after(20, &[420]);
    ticks.after(100, &[]);
    ticks.after(200, &[720]);

    let mut ticks = waiting();
    ticks.interval.reset_at(ticks.begin + 440 * MS);
    ticks.after(40, &[440]);
    ticks.after(100, &[]);
    ticks.after(200, &[740]);

    let mut ticks = waiting();
    ticks.interval.reset_at(ticks.begin + 1_400 * MS);
    (0..3).for_each(|_| ticks.after(300, &[]));
    ticks.after(100, &[1_400]);
    ticks.after(300, &[1_700]);
}

#[test]
fn a_period_of_any_length_is_taken() {
    let engine = engine_by_hand();
    let mut interval = engine.interval(Duration::MAX);
    interval.reset();
    let mut interval = engine.interval(MS);
    interval.reset_after(Duration::MAX);
    let mut interval = engine.interval(Duration::MAX);
    let (_, waker) = bell();
    assert!(poll(&mut pin!(interval.tick()), &waker).is_ready());
    assert!(poll(&mut pin!(interval.tick()), &waker).is_pending());
}

#[test]
fn a_tick_that_is_ready_leaves_no_waker_behind() {
    // So who does not ask for the next tick is not woken for it.
    let engine = engine_by_hand();
    let mut interval = engine.interval(10 * MS);
    let (bell, waker) = bell();
    assert!(interval.poll_tick(&mut Context::from_waker(&waker)).is_ready());
    engine.advance(150 * MS).unwrap();
    assert_eq!((bell.woken(), Arc::strong_count(&bell)), (0, 2));
    assert!(interval.poll_tick(&mut Context::from_waker(&waker)).is_ready());
}
