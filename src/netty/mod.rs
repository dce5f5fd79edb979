//! The API of Netty's and Dubbo's hashed wheel timer, for code that is ported.
//!
//! The names are theirs: a [`HashedWheelTimer`] takes a [`TimerTask`] and a delay and returns a
//! [`Timeout`], which can be cancelled and inspected. The implementation is the engine of this
//! crate, so no thread ticks, and a cancelled timeout is removed at once.
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
//!     // The task schedules itself again at the end of its run: slow runs never pile up.
//!     if let Some(timer) = timeout.timer() {
//!         let _ = timer.new_timeout(timeout.task().clone(), Duration::from_millis(20));
//!     }
//! };
//! timer.new_timeout(heartbeat, Duration::from_millis(20))?;
//! assert_eq!((receiver.recv(), receiver.recv()), (Ok("beat"), Ok("beat")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Same as in Netty
//!
//! - A timeout is *waiting*, then *expired* or *cancelled*, and stays so. A task runs when its
//!   delay has passed, never before, and at most once per timeout. It may cancel other timeouts
//!   that are due at the same tick: those whose tasks have not begun will not run.
//! - The timer starts with [`start`](HashedWheelTimer::start) or its first timeout, and ends with
//!   [`stop`](HashedWheelTimer::stop), which cancels the waiting timeouts and returns them.
//! - Tasks run on the timer's thread, one after another, unless a [dispatcher](Builder::dispatcher)
//!   runs them elsewhere.
//!
//! # Different from Netty
//!
//! - No thread wakes up per tick: the timer's thread sleeps until a bucket with timeouts is due.
//! - Cancelling is complete when [`Timeout::cancel`] returns: memory, count, limit and the
//!   callback, all on the thread that cancels. In Netty, the worker does this up to a tick later.
//! - [`pending_timeouts`](HashedWheelTimer::pending_timeouts) counts the timeouts that will run. In
//!   Netty it also counts cancelled ones, and can drift.
//! - The number of new timeouts that enter the wheel per tick is not limited (in Netty, to
//!   100,000).
//! - Timeouts far in the future are not visited: they wait in levels of wider buckets. In Netty
//!   they wait in further rounds, and each visit of a bucket walks over them.
//! - A timeout that is created while the timer stops is returned by `stop` or rejected, never lost.
//! - `stop` waits for the task that runs; it does not interrupt it.
//! - A timer that is not stopped ends with its last [`HashedWheelTimer`].
//! - Within a tick, tasks run in no particular order; in Netty, in the order of creation.
//!
//! # Ownership
//!
//! A waiting timeout does not keep its timer alive: when the last `HashedWheelTimer` is dropped,
//! the timer ends, and the waiting timeouts are cancelled and dropped. So [`Timeout::timer`] may
//! return `None`. A *task* that captures a `HashedWheelTimer` does keep the timer alive until the
//! task is dropped; use `Timeout::timer` instead.
//!
//! A timeout keeps its task. A task that stores its own timeouts therefore keeps itself alive until
//! it removes them.

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
