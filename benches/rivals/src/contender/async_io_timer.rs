//! async-io's `Timer`: an ordered map behind one reactor for the whole process.

use std::pin::Pin;
use std::time::Duration;

use async_io::Timer;

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::waker::poll_once;

/// Nothing: the reactor is global.
#[derive(Debug)]
pub(crate) struct AsyncIo;

/// Nothing: the reactor is global.
#[derive(Debug)]
pub(crate) struct AsyncIoProducer;

impl Contender for AsyncIo {
    const NAME: &'static str = "async-io";
    const ABOUT: &'static str = "async_io::Timer, polled once, dropped or set anew";

    type Timer = Option<Timer>;
    type Producer = AsyncIoProducer;

    fn start(_: Setup) -> Result<AsyncIo, BenchError> {
        Ok(AsyncIo)
    }

    fn producer(&self) -> AsyncIoProducer {
        AsyncIoProducer
    }
}

impl Producer for AsyncIoProducer {
    type Timer = Option<Timer>;

    #[inline]
    fn schedule(&mut self, mut timer: Pin<&mut Option<Timer>>, delay: Duration, token: u64) {
        timer.set(Some(Timer::after(delay)));
        poll_once(timer.as_pin_mut().expect("it was just put there"), token);
    }

    #[inline]
    fn cancel(&mut self, mut timer: Pin<&mut Option<Timer>>) -> bool {
        timer.set(None);
        true
    }

    #[inline]
    fn reset(&mut self, timer: Pin<&mut Option<Timer>>, delay: Duration, _: u64) -> bool {
        let timer = timer.get_mut().as_mut().expect("a timer was scheduled here");
        timer.set_after(delay);
        true
    }
}
