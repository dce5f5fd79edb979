//! Waiting until a task has ended: cancel, and know that nothing of it runs any more.
//!
//! [`Handle::cancel`](crate::Handle::cancel) returns `false` if the timer has fired, and its task
//! may be *running* then. That is not enough for a caller that is about to free memory which the
//! task uses, as callers from C do. A timer of [`Engine::schedule_waitable`] has a [`Waitable`]
//! instead of a handle. When its [`cancel_wait`] returns, the task was cancelled or has returned,
//! and what it captured is dropped. There is a form with a time limit, and one for async code.
//!
//! ```
//! use std::time::Duration;
//! use tickless::Engine;
//! use tickless::wait::Ended;
//!
//! let engine = Engine::new()?;
//! let mut timeout = engine.schedule_waitable(Duration::from_secs(5), || println!("late"))?;
//! assert_eq!(timeout.cancel_wait()?, Ended::Cancelled);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! The task lies in an allocation that the caller shares with the engine. A cancel takes the task
//! out and drops it if it has not begun, wherever it is: with a pending timer, in a batch behind
//! another task, in the queue of a [pool](crate::dispatch::Pool), in a channel, or among the tasks
//! that [`stop`](crate::Engine::stop) has returned. The empty task that is left there does nothing.
//! If the task has begun, the caller waits for its end. So nobody waits for a task that has not
//! begun, and a task may cancel a later one of its own batch.
//!
//! A timer that does not use this pays nothing for it.
//!
//! # Panics
//!
//! A task that panics has ended when its stack is unwound. What it panicked with
//! ([`std::panic::panic_any`]) is no longer the task's: the code that catches the panic has it, and
//! may drop it after the waiter has returned. For an engine's tasks that is the engine, which shows
//! it to [`on_panic`](crate::Builder::on_panic) first. So do not panic with what has to be dropped
//! by then.
//!
//! # Payloads of your own
//!
//! [`pair`] makes the two ends for a value of any type: a [`Guarded`] value, which goes into the
//! engine as the payload or as a part of it, and a [`Waiter`]. [`task`] makes a [`Task`] and its
//! waiter, for everything that takes a task: [keyed] timers, a pool's
//! [`submit`](crate::dispatch::Pool::submit), an engine. All timers of a connection or request,
//! with one wait for all of them, are in a [`WaitableScope`](crate::scope::WaitableScope).
//!
//! # Deadlocks
//!
//! A task cannot wait for itself: the wait is refused ([`WaitError::InsideTask`]). Circles through
//! others are not looked for: two tasks that wait for each other wait for ever, as with locks. Nor
//! does the engine know which thread runs a task that is a future: between [`Guarded::begin`] and
//! the drop of [`Running`], a task that waits for itself waits for ever.
//!
//! A thread of a pool that waits steps aside: reapers do not wait for it meanwhile. (One that
//! blocks on a future of this module does not.)
//!
//! [keyed]: https://docs.rs/tickless-keyed
//! [`Engine::schedule_waitable`]: crate::Engine::schedule_waitable
//! [`Waitable`]: crate::Waitable
//! [`cancel_wait`]: crate::Waitable::cancel_wait

mod cancelled;
mod error;
mod guarded;
mod waiter;
pub(crate) mod waiting;

pub use cancelled::{Cancelled, Ended};
pub use error::WaitError;
pub use guarded::{Guarded, Running};
pub use waiter::{Stage, Waiter};
pub(crate) use waiting::{Ends, Sleeper, deadline_in, wait_for_end, working_on};

use crate::dispatch::{IntoPayload, Task};
use crate::protocol::revocable::Revocable;
use crate::protocol::twin::Twin;

/// Makes the two ends of a value: one that uses it, and one that revokes it or waits.
///
/// ```
/// use std::time::Duration;
/// use tickless::wait::{self, Ended, Guarded};
/// use tickless::{Batch, Engine};
///
/// let engine = Engine::typed(|batch: Batch<'_, Guarded<u64>>| {
///     for connection in batch {
///         connection.run(|number| println!("{number} is idle"));
///     }
/// })?;
/// let (connection, mut waiter) = wait::pair(17);
/// let timer = engine.schedule(Duration::from_secs(30), connection)?;
/// // The connection is closed: what the handler knows of it may be freed after this.
/// assert_eq!(waiter.cancel_wait()?, Ended::Cancelled);
/// timer.cancel();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pair<V: Send + 'static>(value: V) -> (Guarded<V>, Waiter<V>) {
    let [guard, waiter] = Twin::pair(Revocable::new(value));
    (Guarded::new(guard), Waiter::new(waiter))
}

/// Makes a task that can be waited for, and its waiter.
///
/// ```
/// use std::time::Duration;
/// use tickless::wait::{self, Ended};
/// use tickless_keyed::KeyedTimers;
///
/// let (task, mut waiter) = wait::task(|| println!("the session has ended"));
/// let sessions = KeyedTimers::new()?;
/// sessions.schedule_keyed(7, Duration::from_secs(60), task)?;
/// sessions.cancel(&7);
/// assert_eq!(waiter.cancel_wait()?, Ended::Cancelled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn task(task: impl IntoPayload<Task>) -> (Task, Waiter) {
    let (guarded, waiter) = pair(task.into_payload());
    (guarded.into(), waiter)
}
