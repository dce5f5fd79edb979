//! pingora-timeout: timers of a thread that fall into the same 10 ms share one notification.
//!
//! A timeout around a future that never ends, polled once, dropped to cancel it. Its way of
//! leaving long timeouts to tokio is switched off: it is not what is measured.

use std::future::Pending;
use std::pin::Pin;
use std::time::Duration;

use pingora_timeout::Timeout;
use pingora_timeout::fast_timeout::{
    FastOrTokioTimeout, fast_timeout, set_fast_timeout_to_tokio_threshold,
};

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::waker::poll_once;

/// It counts milliseconds. A timer for its very first one is a subtraction from zero, which panics
/// in a debug build; on a busy machine some delays are over by the time they are passed on.
const RESOLUTION: Duration = Duration::from_millis(1);

/// Nothing: the timers are global.
#[derive(Debug)]
pub(crate) struct Pingora;

/// Nothing: a thread's timers are found through the thread.
#[derive(Debug)]
pub(crate) struct PingoraProducer;

impl Contender for Pingora {
    const NAME: &'static str = "pingora";
    const ABOUT: &'static str = "pingora-timeout, 10 ms coarse; a reset is cancel + schedule";
    // It looks whether the timer has fired, and then begins to wait for the notification.
    const LOSES: bool = true;

    type Timer = Option<Timeout<Pending<()>, FastOrTokioTimeout>>;
    type Producer = PingoraProducer;

    fn start(_: Setup) -> Result<Pingora, BenchError> {
        set_fast_timeout_to_tokio_threshold(None);
        Ok(Pingora)
    }

    fn producer(&self) -> PingoraProducer {
        PingoraProducer
    }
}

impl Producer for PingoraProducer {
    type Timer = Option<Timeout<Pending<()>, FastOrTokioTimeout>>;

    #[inline]
    fn schedule(&mut self, mut timer: Pin<&mut Self::Timer>, delay: Duration, token: u64) {
        let delay = delay.max(RESOLUTION);
        timer.set(Some(fast_timeout(delay, std::future::pending())));
        poll_once(timer.as_pin_mut().expect("it was just put there"), token);
    }

    #[inline]
    fn cancel(&mut self, mut timer: Pin<&mut Self::Timer>) -> bool {
        timer.set(None);
        true
    }
}
