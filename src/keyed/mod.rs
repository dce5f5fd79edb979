//! Timers under keys: at most one timer waits under each key. And a map whose entries have a time
//! to live: [`TtlMap`].
//!
//! Code with many timeouts, of connections, sessions or requests in flight, knows each by a key. So
//! it keeps a map from keys to timers beside the engine. Such a map has races: a timer fires while
//! it is being replaced, an entry stays after its timer has fired, or an entry is removed after
//! another timer has taken its place. [`KeyedTimers`] is that map, and each of its operations is
//! atomic.
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
//! // Ada sends something: her timer is postponed.
//! assert_eq!(timers.reset("ada", 60 * second), Ok(()));
//! // Bob says goodbye: his will never run.
//! assert!(timers.cancel("bob"));
//! // Ada says goodbye too, and gets a moment more.
//! assert_eq!(timers.schedule_keyed("ada", second / 1000, idle("ada"))?, Scheduled::Replaced);
//! assert_eq!(receiver.recv(), Ok("ada"));
//! assert!(!timers.cancel("ada"), "it has run, and left nothing");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - *Exactly once*: each scheduled task has one outcome. It runs, is cancelled, replaced or taken,
//!   ends with its engine, or is dropped by the engine's handler. A caller that was told one
//!   outcome never sees another. The map alone decides which timer waits under a key, in one step
//!   per operation.
//! - *A cancel before the task starts wins*, even if the engine has already removed the timer from
//!   its wheel and the task waits behind others of the same tick or in the queue of a pool. The
//!   same holds for a replacement and a reset.
//! - *A key is free* as soon as its task starts to run or `cancel` has returned. A task may
//!   schedule under its own key again. A timer that is reported as waiting is waiting.
//! - *Nothing runs after a wait*: when [`KeyedTimers::cancel_wait`] returns `Ok`, no task of the
//!   key runs any more, apart from one that another call has taken out.
//! - *A refusal changes nothing*: if the engine is full or has stopped, the task comes back, and
//!   the timer that waited under the key still waits.
//!
//! # Values with a time to live
//!
//! A session, a token or an entry of a cache is a value under a key that is over at some time. With
//! a map of values beside the timers, each expiry would have to find out whether the value that it
//! meets is still the one that it was scheduled for. [`TtlMap`] is one map for both: the timer that
//! waits under a key has the value, and hands it over with the key, once. All that is said above of
//! a task holds for a value, with two exceptions: once its time has come, a value cannot be looked
//! up, extended or removed under its key, only replaced; and there is no waiting.
//!
//! ```
//! use std::sync::{Arc, mpsc};
//! use std::time::Duration;
//! use tickless::keyed::TtlMap;
//!
//! let (sender, receiver) = mpsc::channel();
//! let on_expiry = move |token: &u32, user: Arc<str>| drop(sender.send((*token, user)));
//! let tokens = TtlMap::<u32, str>::new(on_expiry)?;
//!
//! let hour = Duration::from_secs(3600);
//! tokens.insert(1, "ada", hour)?;
//! tokens.insert(2, "bob", hour / 1_000_000)?;
//! assert_eq!(tokens.get_and_extend(&1, hour)?.as_ref(), "ada");
//! assert_eq!(receiver.recv()?, (2, Arc::from("bob")));
//! assert_eq!(tokens.remove(&1).as_deref(), Some("ada"), "it was used up in time");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Requirements on keys
//!
//! The methods that take keys call `Hash` and `Eq` on the caller's thread. Neither is called when
//! a timer fires. `Eq` runs while a part of the map is locked, so it must not use the timers. A
//! panic in `Hash` or `Eq` goes through the call, and leaves everything as it was.

mod by_key;
mod door;
mod error;
mod node;
mod running;
mod table;
mod timers;
mod ttl;
mod ttl_by_key;
mod waiting;
mod waits;

pub use error::{IfAbsentError, IfAbsentReason, ResetError, Scheduled};
pub use timers::KeyedTimers;
pub use ttl::TtlMap;
