//! `async_io::Timer`.

use std::future::Future;
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use tickless::future::Sleep;

use crate::engines::elsewhere;

/// As `async_io::Timer`.
#[derive(Debug)]
pub struct Timer {
    sleep: Sleep,
    period: Duration,
}

// === impl Timer ===

impl Timer {
    pub fn never() -> Timer {
        Timer::after(Duration::MAX)
    }

    pub fn after(duration: Duration) -> Timer {
        Timer { sleep: elsewhere().sleep(duration), period: Duration::MAX }
    }

    pub fn at(instant: Instant) -> Timer {
        Timer { sleep: elsewhere().sleep_until(instant), period: Duration::MAX }
    }

    pub fn interval(period: Duration) -> Timer {
        Timer { sleep: elsewhere().sleep(period), period }
    }

    pub fn interval_at(start: Instant, period: Duration) -> Timer {
        Timer { sleep: elsewhere().sleep_until(start), period }
    }

    pub fn will_fire(&self) -> bool {
        self.sleep.deadline().is_some()
    }

    pub fn set_after(&mut self, duration: Duration) {
        self.sleep.reset(duration);
    }

    pub fn set_at(&mut self, instant: Instant) {
        self.sleep.reset(instant);
    }

    pub fn set_interval(&mut self, period: Duration) {
        self.sleep.reset(period);
        self.period = period;
    }

    pub fn set_interval_at(&mut self, start: Instant, period: Duration) {
        self.sleep.reset(start);
        self.period = period;
    }

    fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.sleep).poll(cx));
        let fired = self.sleep.deadline().expect("what has elapsed had a deadline");
        match fired.checked_add(self.period) {
            Some(next) => self.sleep.reset(next),
            None => self.sleep.reset(Duration::MAX),
        }
        Poll::Ready(fired)
    }
}

impl Future for Timer {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        self.poll_fired(cx)
    }
}

impl Stream for Timer {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll_fired(cx).map(Some)
    }
}
