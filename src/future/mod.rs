//! Timers for asynchronous code: sleeps, timeouts, intervals, delay queues and streams in time, on
//! any executor.
//!
//! Nothing here depends on a runtime: when a timer ends, it wakes the task with the waker that the
//! task was polled with. So these futures work on tokio, smol, async-std, a bare `block_on`, or
//! several of these in one program.
//!
//! ```
//! use std::time::Duration;
//! use tickless::future::FutureExt;
//!
//! # async fn fetch() -> u32 { 7 }
//! pollster::block_on(async {
//!     tickless::sleep(Duration::from_millis(5)).await;
//!
//!     match fetch().timeout(Duration::from_secs(1)).await {
//!         Ok(answer) => println!("{answer}"),
//!         Err(elapsed) => eprintln!("no answer: {elapsed}"),
//!     }
//!
//!     let mut interval = tickless::interval(Duration::from_millis(5));
//!     for _ in 0..3 {
//!         interval.tick().await;
//!     }
//! });
//! ```
//!
//! # Which engine
//!
//! [`sleep`](crate::sleep), [`timeout`](crate::timeout), [`interval`](crate::interval) and
//! [`DelayQueue::new`] run on the *ambient engine*. That is the first in this table that there is;
//! the last two are built on first use. An [`Engine`](crate::Engine) also has methods of the same
//! names. An engine of your own can have a shorter tick, or a clock that a test moves by hand: code
//! that calls `tickless::sleep` can be tested without waiting.
//!
//! | how an engine becomes ambient | for |
//! |---|---|
//! | [`Engine::entered`](crate::Engine::entered) | one future, and what it creates, on any thread |
//! | [`Engine::enter`](crate::Engine::enter) | the calling thread, until the guard is dropped |
//! | [`Engine::enter_thread`](crate::Engine::enter_thread) | the calling thread, for good |
//! | [`Engine::set_global`](crate::Engine::set_global) | the process, before the first use |
#![cfg_attr(
    feature = "tokio",
    doc = "| [`Engine::enter_runtime`](crate::Engine::enter_runtime), or"
)]
#![cfg_attr(feature = "tokio", doc = "nothing: [`Engine::of_runtime`](crate::Engine::of_runtime)")]
#![cfg_attr(feature = "tokio", doc = "| the code in a tokio runtime |")]
//! | nothing: [`Engine::global`](crate::Engine::global) | all other code |
//!
//! # Which thread wakes the tasks
//!
//! The engine's reaper calls the wakers on a thread of its own, whatever the engine's
//! [handler](crate::Handler) is, and each call may have to wake a thread of the runtime. An engine
//! that a task of the runtime serves has no such thread, and waking costs less CPU time. With the
//! feature `tokio`, each tokio runtime has such an engine, on which the code in it runs that names
//! none. It is built when it is first needed, and ends with the runtime. On Linux sleeps are as
//! punctual there as with a thread, and twice as punctual as the runtime's own. Elsewhere, and with
//! [`Engine::drive`](crate::Engine::drive) on other runtimes, they are late by the resolution of
//! the runtime's sleeps as well.
//!
//! An engine with threads of its own, [set](crate::Engine::set_global) at the beginning of the
//! program, is the better choice if tasks keep all workers of a runtime busy, or block them until a
//! timer fires (`block_on`), or if several runtimes share timers. Code in a runtime also uses such
//! an engine where none can be built on the runtime, since it has neither a reactor nor timers; and
//! until the program builds one there itself, if panics abort the program, or if its process was
//! forked from one with engines.
//!
//! # Cost
//!
//! Creating one by a delay reads the clock. A [`Sleep`] is scheduled when it is first polled.
//! Nothing here allocates, besides the engine's memory for timers, which is reused. A
//! [`DelayQueue`] has memory of its own. A [`Timeout`] whose future is ready at its first poll
//! needs no timer at all. Slow wakers delay the reaper.
//!
//! # When the engine stops
//!
//! Unless a policy says otherwise, nothing waits for ever, and nothing pretends that time has
//! passed. When an engine stops:
//!
//! - a [`Timeout`] ends with an [`Elapsed`] that says so ([`Elapsed::cause`]);
//! - awaiting a [`Sleep`] or a tick panics, while [`Sleep::wait`] and [`Interval::try_tick`] return
//!   an error instead;
//! - an [`Interval`] ends as a stream, and so does a [`DelayQueue`] with pending items, while
//!   [`DelayQueue::try_expired`] returns an error;
//! - inside code that cannot hear of an error, a sleep has a policy ([`OnRefusal`]).
//!
//! An engine that was built on a tokio runtime stops when that shuts down. The error says so
//! ([`RuntimeEnded`](crate::ScheduleReason::RuntimeEnded)).
//!
//! Sleeps do not count for the engine's limit ([`max_pending`](crate::Builder::max_pending)), so a
//! full engine does not refuse them. None of them keeps its engine alive.
//!
//! A task *of the engine itself* that awaits one, by a `block_on`, keeps its thread from firing
//! timers. A spare thread takes its place ([`takeover`](crate::Builder::takeover)), as long as
//! there is one. So as many tasks may await timers of their own engine at a time as it has
//! [spares](crate::Builder::spares). A further one is refused as by an engine that has stopped, but
//! the error is [`Circular`](crate::ScheduleReason::Circular): all of them might wait for ever. The
//! same happens while as many tasks are stuck otherwise. Without takeovers there are no spares, and
//! each such poll is refused. So it is where a task of a runtime serves the engine
//! ([`drive`](crate::Engine::drive), `build_on_tokio`); and in
//! [`on_stuck`](crate::Builder::on_stuck) and
//! [`on_thread_start`](crate::Builder::on_thread_start), whose threads serve no shard that another
//! could take over. (A poll counts, since the engine cannot see whether the thread sleeps after it:
//! until the task has returned, or the tasks that were due with it. The engine does not know who
//! serves the shards of one that its callers [drive](crate::Driver) otherwise, and refuses nothing
//! there.)
//! Nor does an engine look for circles through others: where a task of one engine awaits a timer of
//! another, and a task of that one a timer of the first, spares make them go on. Without takeovers
//! both wait until one of the engines stops.
//!
//! # Other tasks
//!
//! A wait that is over at once (of no time, until the past, for ticks that were missed) makes no
//! task wait, so a loop of them would let no other task run. Therefore such a wait returns
//! `Pending` now and then, and wakes its task at once: on tokio (feature `tokio`) when the task's
//! [budget](https://docs.rs/tokio/latest/tokio/task/coop/index.html) is spent, elsewhere after 128
//! of them in a row on one thread. What has waited for its time is reported whatever the budget is,
//! and nothing is put off twice: so no expiry is starved. (A poll with a waker that holds no data,
//! as [`Waker::noop`](std::task::Waker::noop), is not put off.)
//!
//! # Cancel safety
//!
//! All futures here are cancel safe. A future that was not awaited to its end can be awaited again
//! by `&mut`, and loses neither time nor ticks.

mod coop;
pub mod delay_queue;
mod entered;
#[cfg(feature = "hyper")]
mod hyper;
mod interval;
#[cfg(feature = "quinn")]
mod quinn;
mod refusal;
mod ringer;
mod sleep;
mod stream;
mod timeout;
#[cfg(feature = "tower")]
pub mod tower;

#[doc(inline)]
pub use delay_queue::DelayQueue;
pub use entered::Entered;
#[cfg(feature = "hyper")]
pub use hyper::HyperTimer;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
#[cfg(feature = "quinn")]
pub use quinn::QuinnRuntime;
pub use refusal::{OnRefusal, PolicySleep};
pub use sleep::{Sleep, sleep, sleep_until};
#[doc(hidden)]
pub use stream::Pace;
pub use stream::{Chunks, Limit, Paced, StreamExt, Throttle};
pub use timeout::{Elapsed, FutureExt, Timeout, timeout, timeout_at};

use crate::error::ScheduleReason;

/// Why an engine does not tell when a deadline has passed: it has stopped, or the calling thread
/// runs one of its tasks and must not wait. (An engine is never full for a sleep.)
///
/// Awaiting a [`Sleep`] or a tick panics with it. [`Sleep::poll_elapsed`], [`Sleep::wait`] and
/// [`Interval::try_tick`] return it, and a [`Timeout`] returns it as the [cause](Elapsed::cause) of
/// its [`Elapsed`].
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::future::SleepError;
///
/// let engine = Engine::new()?;
/// let mut sleep = engine.sleep(Duration::from_secs(5));
/// engine.stop()?;
/// assert_eq!(pollster::block_on(sleep.wait()), Err(SleepError::Stopped));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SleepError = ScheduleReason;
