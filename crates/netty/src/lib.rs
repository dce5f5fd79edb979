#![doc = include_str!("../README.md")]

mod builder;
mod timeout;
mod timer;
mod waitable;

use std::sync::Arc;

use tickless::ScheduleError;

pub use builder::Builder;
pub use timeout::{Expired, Timeout};
pub use timer::{HashedWheelTimer, StartError, WorkerState};
pub use waitable::WaitableTimeout;

/// The task that runs when a timeout expires.
///
/// Every `Fn(&Timeout)` that is `Send + Sync + 'static` is a task. A type can implement the trait
/// to be notified of cancellations as well:
///
/// ```
/// use std::time::Duration;
/// use tickless::ManualClock;
/// use tickless_netty::{HashedWheelTimer, TimerTask, Timeout};
///
/// struct Request(u64);
///
/// impl TimerTask for Request {
///     fn run(&self, _timeout: &Timeout) {
///         println!("request {} timed out", self.0);
///     }
///
///     fn cancelled(&self, _timeout: &Timeout) {
///         println!("request {} was answered", self.0);
///     }
/// }
///
/// let clock = ManualClock::new();
/// let timer = HashedWheelTimer::builder().manual_clock(&clock).build()?;
/// let answered = timer.new_timeout(Request(1), Duration::from_secs(1))?;
/// let lost = timer.new_timeout(Request(2), Duration::from_secs(1))?;
/// assert!(answered.cancel());
/// timer.advance(Duration::from_secs(1))?;
/// assert!(lost.is_expired());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A task is shared, not consumed: it may be given to any number of timeouts, of several timers. It
/// then runs once for each of them, possibly on several threads at the same time.
pub trait TimerTask: Send + Sync + 'static {
    /// Runs the task, once per timeout, not before its delay has passed.
    ///
    /// This is called on the timer's thread, which serves no other timeout meanwhile, or where the
    /// [dispatcher](Builder::dispatcher) runs it. `timeout` is expired by then, and
    /// cancelling it is too late. The task may create and cancel timeouts; on the timer's thread it
    /// may not stop its timer. A panic on the timer's thread ends there and is counted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless_netty::{HashedWheelTimer, TimerTask, Timeout};
    /// /// Asks again every second, as long as its timer lives.
    /// struct Poll;
    /// impl TimerTask for Poll {
    ///     fn run(&self, timeout: &Timeout) {
    ///         if let Some(timer) = timeout.timer() {
    ///             let _ = timer.new_timeout(timeout.task().clone(), Duration::from_secs(1));
    ///         }
    ///     }
    /// }
    /// let timer = HashedWheelTimer::builder().manual_clock(&ManualClock::new()).build()?;
    /// timer.new_timeout(Poll, Duration::from_secs(1))?;
    /// assert_eq!(timer.advance(Duration::from_secs(5))?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn run(&self, timeout: &Timeout);

    /// Called when [`Timeout::cancel`] has cancelled a timeout, by the thread that cancelled it and
    /// before `cancel` returns. The default does nothing.
    ///
    /// The timeout's place and count are released before, so this may create another timeout. It is
    /// *not* called for timeouts that [`stop`](HashedWheelTimer::stop) returns, because the
    /// caller of `stop` has those, nor when a timer is dropped. A panic propagates to the caller of
    /// `cancel`.
    fn cancelled(&self, timeout: &Timeout) {
        let _ = timeout;
    }

    /// The task that this one stands for, if it does.
    #[doc(hidden)]
    fn carried(&self) -> Option<&Arc<dyn TimerTask>> {
        None
    }
}

/// The parameter of [`new_timeout`](HashedWheelTimer::new_timeout): a task, or one in an
/// [`Arc`].
///
/// A task that comes as an [`Arc`] keeps its address, so scheduling `timeout.task().clone()` again
/// does not allocate a second task.
///
/// ```
/// use std::sync::Arc;
/// use tickless_netty::{IntoTask, TimerTask, Timeout};
///
/// let shared: Arc<dyn TimerTask> = (|_: &Timeout| println!("due")).into_task();
/// let same = shared.clone().into_task();
/// assert!(Arc::ptr_eq(&shared, &same));
/// ```
pub trait IntoTask {
    /// Returns the task in an `Arc`.
    fn into_task(self) -> Arc<dyn TimerTask>;
}

/// The error of creating a timeout. It returns the task.
///
/// ```
/// use std::time::Duration;
/// use tickless::ScheduleReason;
/// use tickless_netty::{HashedWheelTimer, Timeout};
///
/// let timer = HashedWheelTimer::builder().max_pending_timeouts(1).build()?;
/// let hour = Duration::from_secs(3600);
/// let first = timer.new_timeout(|_: &Timeout| println!("an hour later"), hour)?;
/// let rejected = timer.new_timeout(|_: &Timeout| println!("too many"), hour).unwrap_err();
/// match rejected.reason() {
///     ScheduleReason::Full => {
///         assert!(first.cancel(), "which makes room at once");
///         timer.new_timeout(rejected.into_payload(), hour)?;
///     }
///     other => panic!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Rejected = ScheduleError<Arc<dyn TimerTask>>;

// === impl TimerTask, IntoTask ===

impl<F: Fn(&Timeout) + Send + Sync + 'static> TimerTask for F {
    fn run(&self, timeout: &Timeout) {
        self(timeout);
    }
}

impl<T: TimerTask> IntoTask for T {
    fn into_task(self) -> Arc<dyn TimerTask> {
        Arc::new(self)
    }
}

impl<T: TimerTask> IntoTask for Arc<T> {
    fn into_task(self) -> Arc<dyn TimerTask> {
        self
    }
}

impl IntoTask for Arc<dyn TimerTask> {
    fn into_task(self) -> Arc<dyn TimerTask> {
        self
    }
}
