//! tickless where reapers wait in user space: with precise timers, and with `spin_before`.

use std::time::Duration;

use tickless::{Engine, Handle};

use super::tickless_closures::{level_widths, report};
use super::{Contender, Setup};
use crate::error::BenchError;
use crate::kind::Workload;
use crate::record::Extra;

/// The share of a core for precise timers.
const SHARE: f64 = 0.25;

/// An engine of precise timers.
#[derive(Debug)]
pub(crate) struct Precise(Engine);

/// An engine whose reapers wait in user space for the next tick, as much as they like.
#[derive(Debug)]
pub(crate) struct Spinning(Engine);

impl Contender for Precise {
    const NAME: &'static str = "tickless-precise";
    const ABOUT: &'static str = "this crate: precise timers, a quarter of a core for waiting";

    type Timer = Option<Handle>;
    type Producer = Engine;

    fn lacks(workload: Workload) -> Option<&'static str> {
        let is_for_few = matches!(workload, Workload::Precise | Workload::Single);
        (!is_for_few).then_some("for some thousand timers per second")
    }

    fn start(_: Setup) -> Result<Precise, BenchError> {
        let built = Engine::builder().precise(SHARE).build();
        built.map(Precise).map_err(BenchError::setup(Self::NAME))
    }

    fn producer(&self) -> Engine {
        self.0.clone()
    }

    fn report(&self, extra: &mut Extra) {
        report(&self.0.stats(), extra);
    }
}

impl Contender for Spinning {
    const NAME: &'static str = "tickless-spinning";
    const ABOUT: &'static str = "this crate: a closure in each timer, reapers wait in user space";
    const HAS_TICK: bool = true;

    type Timer = Option<Handle>;
    type Producer = Engine;

    fn lacks(workload: Workload) -> Option<&'static str> {
        let fires = matches!(
            workload,
            Workload::FireAll
                | Workload::Clustered
                | Workload::Steady
                | Workload::Single
                | Workload::Precise
        );
        (!fires).then_some("differs from tickless where timers fire")
    }

    fn start(setup: Setup) -> Result<Spinning, BenchError> {
        let builder = Engine::builder().tick(setup.tick);
        let built = builder.spin_before(setup.tick).spin_share(1.0).build();
        built.map(Spinning).map_err(BenchError::setup(Self::NAME))
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
