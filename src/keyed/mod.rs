//! Timers under keys: at most one waits under each.
//!
//! Timeouts of connections, sessions, requests in flight: code that has many of them knows each by
//! a key, and so it keeps a map from keys to timers beside the engine. That map is where the races
//! are: a timer that fires while it is being replaced, an entry that stays when its timer is gone,
//! or goes when another has taken its place. [`KeyedTimers`] is that map, with each of its
//! operations made one step.
//!
//! ```
//! use std::sync::mpsc;
//! use std::time::Duration;
//! use tickless::keyed::{KeyedTimers, Scheduled};
//!
//! let timers = KeyedTimers::new()?;
//! let (sender, receiver) = mpsc::channel();
//! let idle = move |user: &'static str| {
//!     let sender = sender.clone();
//!     move || drop(sender.send(user))
//! };
//! let second = Duration::from_secs(1);
//!
//! timers.schedule_keyed("ada", 30 * second, idle("ada"))?;
//! timers.schedule_keyed("bob", 30 * second, idle("bob"))?;
//! // Ada sends something: her timer is pushed out.
//! assert_eq!(timers.reset("ada", 60 * second), Ok(()));
//! // Bob says goodbye: his will never run.
//! assert!(timers.cancel("bob"));
//! // Ada does so too, and is given a moment.
//! assert_eq!(timers.schedule_keyed("ada", second / 1000, idle("ada"))?, Scheduled::Replaced);
//! assert_eq!(receiver.recv(), Ok("ada"));
//! assert!(!timers.cancel("ada"), "it has run, and left nothing");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! - *Exactly once*: each task that was scheduled runs, or is cancelled, or replaced, or taken, or
//!   ends with its engine; and whoever was told one of these will not see another. What waits under
//!   a key is decided by the map alone, in one step per operation.
//! - *A cancel that comes before the task wins*: also when the engine has taken the timer out
//!   already and is on the way to it, behind others of the same tick or in the queue of a pool. The
//!   same holds for a replacement and a reset.
//! - *A key that is free is free*: when its task begins to run, when `cancel` has returned. A task
//!   may schedule under its own key again. What is said to be waiting is waiting.
//! - *A refusal changes nothing*: where the engine is full or has stopped, the task comes back and
//!   what waited under the key still does.
//!
//! # Under which conditions
//!
//! `Hash` and `Eq` of keys are called by the calls that take keys, on their threads, and never when
//! a timer fires. `Eq` runs while a part of the map is locked, so it must not use the timers. What
//! panics there panics through the call, and leaves everything as it was.

mod by_key;
mod door;
mod error;
mod node;
mod table;
mod ticket;
mod timers;
mod waiting;

pub use error::{IfAbsentError, IfAbsentReason, ResetError, Scheduled};
pub use timers::KeyedTimers;
