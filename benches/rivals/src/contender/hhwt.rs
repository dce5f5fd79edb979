//! hierarchical_hash_wheel_timer: a wheel with a thread of its own, fed through a channel.
//!
//! With a state of its own instead of boxed closures. It does not say whether a cancel came in
//! time.

use std::pin::Pin;
use std::time::Duration;

use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{OneshotState, PeriodicState, Timer, TimerReturn};

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::sink;

/// The timer and its thread.
#[derive(Debug)]
pub(crate) struct Hhwt(TimerWithThread<u64, Token, Never>);

/// What a timer carries; its number is also its name.
#[derive(Debug)]
pub(crate) struct Token(u64);

/// No timer is periodic.
#[derive(Debug)]
pub(crate) enum Never {}

/// The sending end of the channel.
pub(crate) struct HhwtProducer(TimerRef<u64, Token, Never>);

impl OneshotState for Token {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.0
    }

    fn trigger(self) {
        sink::fire(self.0);
    }
}

impl PeriodicState for Never {
    type Id = u64;

    fn id(&self) -> &u64 {
        match *self {}
    }

    fn trigger(self) -> TimerReturn<Never> {
        match self {}
    }
}

impl Contender for Hhwt {
    const NAME: &'static str = "hhwt";
    const ABOUT: &'static str = "hierarchical_hash_wheel_timer; a reset is cancel + schedule";

    type Timer = u64;
    type Producer = HhwtProducer;

    fn start(_: Setup) -> Result<Hhwt, BenchError> {
        TimerWithThread::new().map(Hhwt).map_err(BenchError::setup(Self::NAME))
    }

    fn producer(&self) -> HhwtProducer {
        HhwtProducer(self.0.timer_ref())
    }

    fn level_widths(_: Setup) -> Vec<Duration> {
        vec![Duration::from_millis(256)]
    }
}

impl Producer for HhwtProducer {
    type Timer = u64;

    #[inline]
    fn schedule(&mut self, timer: Pin<&mut u64>, delay: Duration, token: u64) {
        *timer.get_mut() = token;
        self.0.schedule_once(delay, Token(token));
    }

    #[inline]
    fn cancel(&mut self, timer: Pin<&mut u64>) -> bool {
        self.0.cancel(&timer);
        true
    }
}
