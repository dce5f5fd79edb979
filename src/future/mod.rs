//! Timers for asynchronous code: sleeps, timeouts and intervals, on any executor.
//!
//! Nothing here knows a runtime: a timer's end wakes the task that waits for it, by the waker that
//! the task was polled with. So they work on tokio, smol, async-std, a bare `block_on`, or several
//! of these in one program.
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
//! [`sleep`](crate::sleep), [`timeout`](crate::timeout) and [`interval`](crate::interval) run on
//! [`Engine::global`](crate::Engine::global), which starts on first use. An
//! [`Engine`](crate::Engine) of your own has methods of the same names: it may have a shorter tick,
//! a limit, or a clock that a test moves by hand.
//!
//! # What it costs
//!
//! Making one reads the clock. A [`Sleep`] is scheduled when it is first polled, with the one
//! allocation that it needs; further polls, resets and all ticks of an [`Interval`] make none. A
//! [`Timeout`] whose future is ready at its first poll needs no timer at all. Waking is done by the
//! engine's reaper, so an executor whose wakers take long makes it late.
//!
//! # When the engine stops
//!
//! Nothing waits for ever, and nothing pretends that time has passed. When an engine stops, or has
//! no room for another timer, a [`Timeout`] ends with an [`Elapsed`] that says so
//! ([`Elapsed::cause`]); a [`Sleep`] or a tick that is awaited panics, and answers an error where
//! one asks for that ([`Sleep::wait`], [`Interval::try_tick`]); an [`Interval`] ends as a stream.
//! None of them keeps its engine alive.
//!
//! # Cancel safety
//!
//! All of them may be dropped at any point, and tell nobody. What has not been awaited to its end
//! can be awaited again by `&mut`: no time is lost, and no tick.

mod engine;
mod error;
mod ext;
#[cfg(feature = "hyper")]
#[cfg_attr(docsrs, doc(cfg(feature = "hyper")))]
mod hyper;
mod interval;
mod missed;
mod sleep;
mod timeout;

pub use error::{Elapsed, SleepError};
pub use ext::FutureExt;
#[cfg(feature = "hyper")]
#[cfg_attr(docsrs, doc(cfg(feature = "hyper")))]
pub use hyper::HyperTimer;
pub use interval::{Interval, interval, interval_at};
pub use missed::MissedTickBehavior;
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Timeout, timeout, timeout_at};
