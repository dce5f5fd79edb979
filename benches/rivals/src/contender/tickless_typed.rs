//! tickless with numbers for payloads, which one handler takes in batches.

use std::pin::Pin;
use std::time::Duration;

use tickless::{Batch, Builder, Engine, Handle};

use super::tickless_closures::{level_widths, report};
use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::record::Extra;
use crate::sink;

/// An engine with default settings, except for the tick.
#[derive(Debug)]
pub(crate) struct Typed(Engine<u64>);

impl Contender for Typed {
    const NAME: &'static str = "tickless-typed";
    const ABOUT: &'static str = "this crate: a number in each timer, one handler for batches";
    const HAS_TICK: bool = true;

    type Timer = Option<Handle<u64>>;
    type Producer = Engine<u64>;

    fn start(setup: Setup) -> Result<Typed, BenchError> {
        let built = Builder::new().tick(setup.tick).build_typed(|batch: Batch<'_, u64>| {
            batch.for_each(sink::fire);
        });
        built.map(Typed).map_err(BenchError::setup(Self::NAME))
    }

    fn producer(&self) -> Engine<u64> {
        self.0.clone()
    }

    fn level_widths(setup: Setup) -> Vec<Duration> {
        level_widths(setup.tick)
    }

    fn report(&self, extra: &mut Extra) {
        report(&self.0.stats(), extra);
    }
}

impl Producer for Engine<u64> {
    type Timer = Option<Handle<u64>>;

    #[inline]
    fn schedule(&mut self, timer: Pin<&mut Self::Timer>, delay: Duration, token: u64) {
        let handle = Engine::schedule(self, delay, token);
        *timer.get_mut() = Some(handle.expect("the engine runs and has no limit"));
    }

    #[inline]
    fn schedule_for_good(&mut self, _: Pin<&mut Self::Timer>, delay: Duration, token: u64) {
        self.schedule_detached(delay, token).expect("the engine runs and has no limit");
    }

    #[inline]
    fn cancel(&mut self, timer: Pin<&mut Self::Timer>) -> bool {
        timer.get_mut().take().is_some_and(Handle::cancel)
    }

    #[inline]
    fn reset(&mut self, timer: Pin<&mut Self::Timer>, delay: Duration, _: u64) -> bool {
        let handle = timer.get_mut().as_mut().expect("a timer was scheduled here");
        handle.reset(delay).is_ok()
    }

    fn keep_to_one_shard(&mut self) {
        self.bind_thread(0).unwrap();
    }
}
