//! No timers at all: what a workload costs itself, its pacing and its clock included.

use std::hint::black_box;
use std::pin::Pin;
use std::time::Duration;

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::kind::Workload;

/// The pseudo-contender.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Contender for Nothing {
    const NAME: &'static str = "floor-load";
    const ABOUT: &'static str = "the load of paced alone: no timer, no clock read for one";
    const FIRES: bool = false;

    type Timer = ();
    type Producer = Nothing;

    fn lacks(workload: Workload) -> Option<&'static str> {
        (workload != Workload::Paced).then_some("a floor for paced only")
    }

    fn start(_: Setup) -> Result<Nothing, BenchError> {
        Ok(Nothing)
    }

    fn producer(&self) -> Nothing {
        Nothing
    }
}

impl Producer for Nothing {
    type Timer = ();

    #[inline(never)]
    fn schedule(&mut self, _: Pin<&mut ()>, delay: Duration, token: u64) {
        black_box((delay, token));
    }

    #[inline(never)]
    fn cancel(&mut self, timer: Pin<&mut ()>) -> bool {
        black_box(timer);
        true
    }
}
