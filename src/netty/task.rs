//! What a timeout runs.

use crate::sync::Arc;

use super::Timeout;

/// What runs when a timeout expires.
///
/// Every `Fn(&Timeout)` that threads may share is one; a type of one's own may also want to be told
/// of cancellations:
///
/// ```
/// use std::time::Duration;
/// use tickless::ManualClock;
/// use tickless::netty::{HashedWheelTimer, TimerTask, Timeout};
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
/// A task is shared, not consumed: it may be given to any number of timeouts, of several timers,
/// and then runs as often, possibly at the same time on several threads.
pub trait TimerTask: Send + Sync + 'static {
    /// Runs, once per timeout, not before its delay has passed.
    ///
    /// On the timer's thread, which serves no other timeout meanwhile, or where the
    /// [dispatcher](super::Builder::dispatcher) has it run. In here `timeout` is expired, and
    /// cancelling it is too late. It may make and cancel timeouts; on the timer's thread it may not
    /// stop its timer. A panic on the timer's thread ends there and is counted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless::netty::{HashedWheelTimer, TimerTask, Timeout};
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
    /// before `cancel` returns. Does nothing unless implemented.
    ///
    /// Room and count are given back before, so that this may make another timeout. It is *not*
    /// called for what [`stop`](super::HashedWheelTimer::stop) returns, as the stopper has those in
    /// hand, nor when a timer is dropped. What it panics with is `cancel`'s caller's.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, TimerTask, Timeout};
    /// #[derive(Default)]
    /// struct Answers(AtomicU32);
    /// impl TimerTask for Answers {
    ///     fn run(&self, _timeout: &Timeout) {}
    ///     fn cancelled(&self, _timeout: &Timeout) {
    ///         self.0.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// }
    /// let answers = Arc::new(Answers::default());
    /// let timer = HashedWheelTimer::new()?;
    /// timer.new_timeout(answers.clone(), Duration::from_secs(60))?.cancel();
    /// assert_eq!(answers.0.load(Ordering::Relaxed), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn cancelled(&self, timeout: &Timeout) {
        let _ = timeout;
    }
}

/// What [`new_timeout`](super::HashedWheelTimer::new_timeout) takes: a task, or one that is shared
/// already.
///
/// A task that comes as an [`Arc`] keeps its address, so that arming `timeout.task().clone()` again
/// allocates no second one.
///
/// ```
/// use std::sync::Arc;
/// use tickless::netty::{IntoTask, TimerTask, Timeout};
///
/// let shared: Arc<dyn TimerTask> = (|_: &Timeout| println!("due")).into_task();
/// let same = shared.clone().into_task();
/// assert!(Arc::ptr_eq(&shared, &same));
/// ```
pub trait IntoTask {
    /// The task, shared.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, IntoTask, Timeout};
    /// let timer = HashedWheelTimer::new()?;
    /// let ping = (|_: &Timeout| println!("ping")).into_task();
    /// for connection in 0..3 {
    ///     timer.new_timeout(ping.clone(), Duration::from_secs(60 + connection))?;
    /// }
    /// assert_eq!(Arc::strong_count(&ping), 4, "one task, not one for each");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn into_task(self) -> Arc<dyn TimerTask>;
}

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
