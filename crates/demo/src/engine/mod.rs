//! What the service asks of a timer engine, and the two that it can run on.

use std::io;
use std::time::Duration;

mod on_tickless;
mod on_tokio;

pub(crate) use on_tickless::Tickless;
pub(crate) use on_tokio::Tokio;

/// How an engine names its threads, so that their wake-ups can be counted.
pub(crate) const THREAD_NAME: &str = "timers";

/// The calls that the event loops make.
///
/// A task runs on a thread of the engine. What the calls return is binding: after `true` from
/// `cancel` the task never runs, and after `true` from `reset` it does not run before the new
/// deadline.
pub(crate) trait TimerEngine: Clone + Send + Sync + 'static {
    /// What users call it.
    const NAME: &'static str;

    /// A timer that can be cancelled and reset.
    type Handle: Send;
    /// What has to be kept until a timer fires that nobody cancels.
    type Detached: Send;

    fn start() -> io::Result<Self>;

    fn schedule(
        &self,
        delay: Duration,
        task: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self::Handle>;

    fn schedule_detached(
        &self,
        delay: Duration,
        task: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self::Detached>;

    /// Whether the timer was moved to `delay` from now; if not, its task has run or runs.
    fn reset(&self, handle: &mut Self::Handle, delay: Duration) -> io::Result<bool>;

    /// Whether the timer was cancelled; if not, its task has run or runs.
    fn cancel(&self, handle: Self::Handle) -> bool;

    /// Ends the engine: no task runs afterwards. Returns what the engine itself has counted, if it
    /// counts.
    fn stop(self) -> io::Result<Option<Counts>>;
}

/// What an engine has counted of its own work, to be compared with the audit's books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) scheduled: u64,
    pub(crate) cancelled: u64,
    pub(crate) reset: u64,
    pub(crate) fired: u64,
    pub(crate) pending: u64,
    pub(crate) panicked: u64,
    /// Timers that the engine returned when it was stopped.
    pub(crate) given_back: u64,
}
