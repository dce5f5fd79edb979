//! `futures_timer::Delay`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tickless::future::Sleep;

use crate::engines::elsewhere;

/// As `futures_timer::Delay`.
#[derive(Debug)]
pub struct Delay {
    sleep: Sleep,
}

// === impl Delay ===

impl Delay {
    pub fn new(dur: Duration) -> Delay {
        Delay { sleep: elsewhere().sleep(dur) }
    }

    pub fn reset(&mut self, dur: Duration) {
        self.sleep.reset(dur);
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.sleep).poll(cx)
    }
}
