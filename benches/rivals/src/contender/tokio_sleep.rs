//! tokio's `Sleep`: built in its place, polled once, dropped to cancel it.
//!
//! With tasks for producers, which yield between bursts and run on the workers that also drive the
//! timers, and with threads of their own that have entered the runtime; each with tokio's timer and
//! with its alternative one, which has a wheel per worker. That one is unstable: it takes part if
//! the bench is built with `--cfg tokio_unstable`, as `benches/measure.sh` does.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, Sleep, sleep};

use super::{Contender, Producer, Setup, on_threads};
use crate::drive::{Gate, Lane, Section};
use crate::error::BenchError;
use crate::kind::Workload;
use crate::waker::poll_once;

/// What the producers are.
pub(crate) trait Way: Send + Sync + 'static {
    /// What the contender is called.
    const NAME: &'static str;
    /// What it is, in half a line.
    const ABOUT: &'static str;
    /// Whether they are tasks.
    const HAS_TASKS: bool;
    /// Why this build cannot measure it, if it cannot.
    const MISSING: Option<&'static str> = None;

    /// Chooses the timer.
    fn choose(builder: &mut Builder) {
        builder.enable_time();
    }
}

/// Tasks of the runtime.
#[derive(Debug)]
pub(crate) struct Tasks;

/// Threads that have entered the runtime.
#[derive(Debug)]
pub(crate) struct Threads;

/// Tasks of a runtime with the alternative timer.
#[derive(Debug)]
pub(crate) struct AltTasks;

/// Threads that have entered such a runtime.
#[derive(Debug)]
pub(crate) struct AltThreads;

/// A runtime with a worker per core.
#[derive(Debug)]
pub(crate) struct Tokio<W> {
    runtime: Runtime,
    way: PhantomData<W>,
}

/// Nothing: the runtime is found through the thread.
#[derive(Debug)]
pub(crate) struct SleepProducer;

impl Way for Tasks {
    const NAME: &'static str = "tokio";
    const ABOUT: &'static str = "tokio::time::Sleep; producers are tasks";
    const HAS_TASKS: bool = true;
}

impl Way for Threads {
    const NAME: &'static str = "tokio-threads";
    const ABOUT: &'static str = "tokio::time::Sleep; producers are threads outside the runtime";
    const HAS_TASKS: bool = false;
}

impl Way for AltTasks {
    const NAME: &'static str = "tokio-alt";
    const ABOUT: &'static str = "tokio's alternative timer, a wheel per worker; tasks";
    const HAS_TASKS: bool = true;
    const MISSING: Option<&'static str> = NO_ALTERNATIVE;

    fn choose(builder: &mut Builder) {
        choose_alternative(builder);
    }
}

impl Way for AltThreads {
    const NAME: &'static str = "tokio-alt-threads";
    const ABOUT: &'static str = "tokio's alternative timer; threads outside the runtime";
    const HAS_TASKS: bool = false;
    const MISSING: Option<&'static str> = NO_ALTERNATIVE;

    fn choose(builder: &mut Builder) {
        choose_alternative(builder);
    }
}

/// Why this build has no alternative timer, if it has none.
const NO_ALTERNATIVE: Option<&str> =
    if cfg!(tokio_unstable) { None } else { Some("not in this build; benches/measure.sh has it") };

fn choose_alternative(builder: &mut Builder) {
    #[cfg(tokio_unstable)]
    builder.enable_alt_timer();
    #[cfg(not(tokio_unstable))]
    unreachable!("{builder:?} is not asked for what this build lacks");
}

impl<W: Way> Contender for Tokio<W> {
    const NAME: &'static str = W::NAME;
    const ABOUT: &'static str = W::ABOUT;
    const MISSING: Option<&'static str> = W::MISSING;

    type Timer = Option<Sleep>;
    type Producer = SleepProducer;

    fn lacks(workload: Workload) -> Option<&'static str> {
        let has_lanes = matches!(
            workload,
            Workload::CancelHeavy
                | Workload::Clustered
                | Workload::FireAll
                | Workload::Paced
                | Workload::Reset
                | Workload::ResetEarlier
                | Workload::Scale
                | Workload::Service
        );
        let is_same = !W::HAS_TASKS && !has_lanes;
        is_same.then_some("the same with tasks, whose producers are threads here")
    }

    fn start(_: Setup) -> Result<Tokio<W>, BenchError> {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let mut builder = Builder::new_multi_thread();
        W::choose(builder.worker_threads(workers));
        let built = builder.build();
        built
            .map(|runtime| Tokio { runtime, way: PhantomData })
            .map_err(BenchError::setup(Self::NAME))
    }

    fn producer(&self) -> SleepProducer {
        SleepProducer
    }

    fn inside<R>(&self, body: impl FnOnce() -> R) -> R {
        let _entered = self.runtime.enter();
        body()
    }

    fn drive<L: Lane>(&self, lanes: Vec<L>) -> (Vec<L>, Section) {
        if W::HAS_TASKS { on_tasks(&self.runtime, lanes) } else { on_threads(self, lanes) }
    }

    fn level_widths(_: Setup) -> Vec<Duration> {
        level_widths()
    }
}

impl Producer for SleepProducer {
    type Timer = Option<Sleep>;

    #[inline]
    fn schedule(&mut self, mut timer: Pin<&mut Option<Sleep>>, delay: Duration, token: u64) {
        timer.set(Some(sleep(delay)));
        poll_once(timer.as_pin_mut().expect("it was just put there"), token);
    }

    #[inline]
    fn cancel(&mut self, mut timer: Pin<&mut Option<Sleep>>) -> bool {
        timer.set(None);
        true
    }

    #[inline]
    fn reset(&mut self, timer: Pin<&mut Option<Sleep>>, delay: Duration, _: u64) -> bool {
        let sleep = timer.as_pin_mut().expect("a timer was scheduled here");
        sleep.reset(Instant::now() + delay);
        true
    }
}

/// The widths of the second and the third level of tokio's wheel.
pub(super) fn level_widths() -> Vec<Duration> {
    vec![Duration::from_millis(64), Duration::from_millis(64 * 64)]
}

fn on_tasks<L: Lane>(runtime: &Runtime, lanes: Vec<L>) -> (Vec<L>, Section) {
    let gate = Arc::new(Gate::new(lanes.len()));
    let run = |mut lane: L| {
        let gate = gate.clone();
        runtime.spawn(async move {
            lane.prepare();
            gate.arrive();
            while !gate.is_open() {
                tokio::task::yield_now().await;
            }
            while lane.burst() {
                match lane.pause() {
                    Duration::ZERO => tokio::task::yield_now().await,
                    pause => sleep(pause).await,
                }
            }
            gate.leave();
            lane
        })
    };
    let tasks: Vec<_> = lanes.into_iter().map(run).collect();
    let lanes = tasks
        .into_iter()
        .map(|task| runtime.block_on(task).expect("a lane does not panic"))
        .collect();
    (lanes, gate.section())
}
