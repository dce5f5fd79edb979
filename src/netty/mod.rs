//! The hashed wheel timer of Netty and Dubbo, as a door to the engine: for code that is ported.
//!
//! The words are theirs: a [`HashedWheelTimer`] takes a [`TimerTask`] and a delay and answers with
//! a [`Timeout`], which can be cancelled and asked how it is. What is behind them is the engine of
//! this crate, so there is no thread that ticks, and what was cancelled is gone at once.
//!
//! ```
//! use std::sync::mpsc;
//! use std::time::Duration;
//! use tickless::netty::{HashedWheelTimer, Timeout};
//!
//! let timer = HashedWheelTimer::builder()
//!     .tick_duration(Duration::from_millis(10))
//!     .ticks_per_wheel(512)
//!     .build()?;
//!
//! let (sender, receiver) = mpsc::channel();
//! let heartbeat = move |timeout: &Timeout| {
//!     let _ = sender.send("beat");
//!     // The task arms itself again when it has run, so that slow runs never pile up.
//!     if let Some(timer) = timeout.timer() {
//!         let _ = timer.new_timeout(timeout.task().clone(), Duration::from_millis(20));
//!     }
//! };
//! timer.new_timeout(heartbeat, Duration::from_millis(20))?;
//! assert_eq!((receiver.recv(), receiver.recv()), (Ok("beat"), Ok("beat")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is as in Netty
//!
//! - A timeout is *waiting*, then *expired* or *cancelled*, and what it is then it stays. A task
//!   runs when its delay has passed, never before, and at most once per timeout. It may cancel
//!   others that are due at the same tick: those that have not begun will not run.
//! - The timer starts with [`start`](HashedWheelTimer::start) or its first timeout, and ends with
//!   [`stop`](HashedWheelTimer::stop), which cancels and returns what was waiting.
//! - Tasks run on the timer's thread, one after another, unless a
//!   [dispatcher](Builder::dispatcher) has them run elsewhere.
//!
//! # What is different
//!
//! - No tick wakes anybody: the thread sleeps until a bucket with something in it opens.
//! - Cancelling is over when [`Timeout::cancel`] returns: memory, count, limit and the callback,
//!   all on the thread that cancels. There, the worker did it up to a tick later.
//! - [`pending_timeouts`](HashedWheelTimer::pending_timeouts) counts what will run. There, it also
//!   counted what was cancelled, and could drift.
//! - No limit to how many new timeouts enter the wheel per tick (100,000 there).
//! - What is not due soon is not looked at: levels of broader buckets instead of further rounds,
//!   which each visit of a bucket walked through.
//! - A timeout that is made while the timer stops is returned by `stop` or refused, never lost.
//! - `stop` waits for the task that runs; it does not interrupt it.
//! - A timer that nobody stops ends with its last [`HashedWheelTimer`].
//! - Within a tick, tasks run in no particular order; there, in the order in which they were made.
//!
//! # What keeps what alive
//!
//! A waiting timeout does not keep its timer alive: when the last `HashedWheelTimer` is dropped the
//! timer ends, and what was waiting is cancelled and let go. So [`Timeout::timer`] may have nothing
//! to answer. A *task* that captures a `HashedWheelTimer` of its own does keep it alive until the
//! task is let go; use `Timeout::timer` instead.
//!
//! A timeout keeps its task. A task that stores its own timeouts therefore keeps itself, until it
//! takes them out again.

mod builder;
mod error;
mod fate;
mod task;
mod timeout;
mod timer;

pub use builder::Builder;
pub use error::{RejectReason, Rejected, StartError};
pub use task::{IntoTask, TimerTask};
pub use timeout::{Expired, Timeout};
pub use timer::{HashedWheelTimer, WorkerState};
