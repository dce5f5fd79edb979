//! The hashed wheel timer of Netty and Dubbo, as a door to the engine: for code that is ported.
//!
//! The words are theirs: a [`HashedWheelTimer`] takes a [`TimerTask`] and a delay and answers with
//! a [`Timeout`], which can be cancelled and asked how it is. What is behind them is the engine of
//! this crate, so there is no thread that ticks, and what was cancelled is gone at once.
//!
//! ```
//! use std::sync::mpsc;
//! use std::time::Duration;
//! use tickless::hashed::{HashedWheelTimer, Timeout};
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
//! | Netty and Dubbo | here |
//! |---|---|
//! | the worker wakes at each tick, for ever | the thread sleeps until a bucket with something in it opens |
//! | cancelling is completed by the worker, up to a tick later: memory, count and the `cancelled` callback | all of it inside [`Timeout::cancel`], on the thread that cancels |
//! | `pendingTimeouts` counts cancelled ones, and may drift | [`pending_timeouts`](HashedWheelTimer::pending_timeouts) counts what will run |
//! | 100,000 new timeouts enter the wheel per tick | no such limit |
//! | each visit of a bucket walks the timeouts of later rounds too | levels instead of rounds: what is not due soon is not looked at |
//! | a timeout that is made while the timer stops may be lost | it is returned by `stop`, or refused |
//! | within a tick, in the order in which they were made | within a tick, in no particular order |
//! | a timer that nobody stops runs on | it ends with the last [`HashedWheelTimer`] that refers to it |
//! | `stop` interrupts the task that runs | `stop` waits for it |
//!
//! # What keeps what alive
//!
//! A waiting timeout does not keep its timer alive: when the last `HashedWheelTimer` is dropped the
//! timer ends, and what was waiting is cancelled and let go. So [`Timeout::timer`] may have nothing
//! to answer. A *task* that captures a `HashedWheelTimer` of its own does keep it alive until the
//! task is let go; use `Timeout::timer` instead.

mod builder;
mod error;
mod fate;
mod task;
mod timeout;
mod timer;

pub use builder::Builder;
pub use error::{Rejected, StartError};
pub use task::{IntoTask, TimerTask};
pub use timeout::{Expired, Timeout};
pub use timer::{HashedWheelTimer, WorkerState};
