//! The contenders: timers for many threads, each behind the same two traits.
//!
//! To add one, write its file and name it in [`ALL`](crate::registry::ALL).

pub(crate) mod async_io_timer;
pub(crate) mod calendar;
pub(crate) mod delay_queue;
pub(crate) mod floor;
pub(crate) mod heap_timerfd;
pub(crate) mod hhwt;
pub(crate) mod mutex_btreemap;
pub(crate) mod mutex_heap;
pub(crate) mod nothing;
pub(crate) mod pingora;
pub(crate) mod shared_inbox;
pub(crate) mod tickless_closures;
pub(crate) mod tickless_typed;
pub(crate) mod tickless_waiting;
pub(crate) mod tokio_sleep;

use std::pin::Pin;
use std::time::Duration;

use crate::drive::{self, Lane, Section};
use crate::error::BenchError;
use crate::kind::Workload;
use crate::record::Extra;

/// How a contender is to be set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// The tick, for those that have one to set.
    pub(crate) tick: Duration,
}

/// A timer for many threads. Its timers are tokens that go to [`sink::fire`](crate::sink::fire).
pub(crate) trait Contender: Sized + Send + Sync + 'static {
    /// What it is called.
    const NAME: &'static str;
    /// What it is, in half a line.
    const ABOUT: &'static str;
    /// Whether its tick can be set.
    const HAS_TICK: bool = false;
    /// Whether its timers fire at all.
    const FIRES: bool = true;
    /// Whether it now and then loses a timer that fires as it is first polled.
    const LOSES: bool = false;
    /// Why this build cannot measure it, if it cannot.
    const MISSING: Option<&'static str> = None;

    /// Where one timer lives: its handle, or the future itself.
    type Timer: Default + Send + 'static;
    /// What one thread schedules with.
    type Producer: Producer<Timer = Self::Timer>;

    /// Why it cannot do a workload, if it cannot.
    fn lacks(_workload: Workload) -> Option<&'static str> {
        None
    }

    /// Starts it.
    fn start(setup: Setup) -> Result<Self, BenchError>;

    /// For one thread.
    fn producer(&self) -> Self::Producer;

    /// Runs `body` where timers may be used.
    fn inside<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }

    /// Runs each lane on a thread of its own, or what the contender's users have instead.
    fn drive<L: Lane>(&self, lanes: Vec<L>) -> (Vec<L>, Section) {
        on_threads(self, lanes)
    }

    /// The widths of the buckets of its upper levels, at which a cascade could show.
    fn level_widths(_setup: Setup) -> Vec<Duration> {
        Vec::new()
    }

    /// What it counted itself.
    fn report(&self, _extra: &mut Extra) {}
}

/// Runs each lane on a thread of its own, inside the contender.
pub(crate) fn on_threads<C: Contender, L: Lane>(contender: &C, lanes: Vec<L>) -> (Vec<L>, Section) {
    drive::on_threads(lanes, |gate, lane| contender.inside(|| drive::run(gate, lane)))
}

/// What one thread schedules with.
pub(crate) trait Producer: Send + 'static {
    /// Where one timer lives.
    type Timer: Default + Send + 'static;

    /// Starts a timer in its place. What was there has fired or was cancelled.
    fn schedule(&mut self, timer: Pin<&mut Self::Timer>, delay: Duration, token: u64);

    /// As [`schedule`](Producer::schedule), for a timer that will not be cancelled.
    fn schedule_for_good(&mut self, timer: Pin<&mut Self::Timer>, delay: Duration, token: u64) {
        self.schedule(timer, delay, token);
    }

    /// Cancels. `false`: it says that it was too late; those that cannot know say `true`.
    fn cancel(&mut self, timer: Pin<&mut Self::Timer>) -> bool;

    /// Moves a timer to `delay` from now, the cheapest way there is.
    fn reset(&mut self, mut timer: Pin<&mut Self::Timer>, delay: Duration, token: u64) -> bool {
        let in_time = self.cancel(timer.as_mut());
        self.schedule(timer, delay, token);
        in_time
    }

    /// From now on, this thread's timers all go to one shard, if there are shards.
    fn keep_to_one_shard(&mut self) {}
}
