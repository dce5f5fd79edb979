//! tickless with a closure in each timer.

use std::pin::Pin;
use std::time::Duration;

use serde_json::json;
use tickless::{Engine, Handle, Stats};

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::record::Extra;
use crate::sink;

/// An engine with default settings, except for the tick.
#[derive(Debug)]
pub(crate) struct Closures(Engine);

impl Contender for Closures {
    const NAME: &'static str = "tickless";
    const ABOUT: &'static str = "this crate: a closure in each timer";
    const HAS_TICK: bool = true;

    type Timer = Option<Handle>;
    type Producer = Engine;

    fn start(setup: Setup) -> Result<Closures, BenchError> {
        let built = Engine::builder().tick(setup.tick).build();
        built.map(Closures).map_err(BenchError::setup(Self::NAME))
    }

    fn producer(&self) -> Engine {
        self.0.clone()
    }

    fn level_widths(setup: Setup) -> Vec<Duration> {
        level_widths(setup.tick)
    }

    fn report(&self, extra: &mut Extra) {
        report(&self.0.stats(), extra);
    }
}

impl Producer for Engine {
    type Timer = Option<Handle>;

    #[inline]
    fn schedule(&mut self, timer: Pin<&mut Option<Handle>>, delay: Duration, token: u64) {
        let handle = Engine::schedule(self, delay, move || sink::fire(token));
        *timer.get_mut() = Some(handle.expect("the engine runs and has no limit"));
    }

    #[inline]
    fn schedule_for_good(&mut self, _: Pin<&mut Option<Handle>>, delay: Duration, token: u64) {
        let scheduled = self.schedule_detached(delay, move || sink::fire(token));
        scheduled.expect("the engine runs and has no limit");
    }

    #[inline]
    fn cancel(&mut self, timer: Pin<&mut Option<Handle>>) -> bool {
        timer.get_mut().take().is_some_and(Handle::cancel)
    }

    #[inline]
    fn reset(&mut self, timer: Pin<&mut Option<Handle>>, delay: Duration, _: u64) -> bool {
        let handle = timer.get_mut().as_mut().expect("a timer was scheduled here");
        handle.reset(delay).is_ok()
    }

    fn keep_to_one_shard(&mut self) {
        self.bind_thread(0).unwrap();
    }
}

/// The widths of the second and the third level.
pub(super) fn level_widths(tick: Duration) -> Vec<Duration> {
    let geometry = tickless::local::Geometry::default();
    [2, 3].map(|level| tick * geometry.width(level) as u32).to_vec()
}

/// What the engine counted.
pub(super) fn report(stats: &Stats, extra: &mut Extra) {
    let share = stats.seated as f64 / (stats.scheduled as f64).max(1.0);
    extra.insert(
        "engine".to_owned(),
        json!({
            "scheduled": stats.scheduled,
            "seated_share": share,
            "cancelled": stats.cancelled,
            "reset": stats.reset,
            "fired": stats.fired,
            "pending": stats.pending,
            "cascaded": stats.cascaded,
            "dead": stats.dead,
            "wake_ups": stats.wake_ups,
            "late_p50_us": stats.lateness.p50.as_secs_f64() * 1e6,
            "late_p99_us": stats.lateness.p99.as_secs_f64() * 1e6,
        }),
    );
}
