//! The traits of values that can be scheduled, and of code that handles them when they are due.

use super::{Batch, Task};

/// A value that can be scheduled on an engine with payloads of type `T`: a `T` itself, and on an
/// [`Engine`] of closures any closure.
///
/// `schedule` takes an `impl IntoPayload<T>`, so that one method serves both. Only functions that
/// pass a payload on need to name this trait:
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, Handle, IntoPayload, ScheduleError, Task};
///
/// fn in_a_minute(
///     engine: &Engine,
///     task: impl IntoPayload<Task>,
/// ) -> Result<Handle, ScheduleError<Task>> {
///     engine.schedule(Duration::from_secs(60), task)
/// }
///
/// let engine = Engine::new()?;
/// assert!(in_a_minute(&engine, || println!("a minute later"))?.cancel());
/// assert!(in_a_minute(&engine, Task::new(|| println!("a minute later")))?.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An engine runs no futures:
///
/// ```compile_fail,E0277
/// # let engine = tickless::Engine::new().unwrap();
/// // "spawn a task that awaits `tickless::sleep` and then yours"
/// engine.schedule_detached(std::time::Duration::ZERO, async || ());
/// ```
///
/// [`Engine`]: https://docs.rs/tickless/latest/tickless/struct.Engine.html
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be scheduled on an `Engine<{T}>`",
    label = "this is neither a `{T}` nor a closure for an `Engine<Task>`",
    note = "an `Engine` of closures takes any `FnOnce() + Send + 'static` that returns `()`",
    note = "an `Engine<T>` takes a `T` itself, and converts nothing"
)]
pub trait IntoPayload<T> {
    /// Converts `self` to the payload.
    fn into_payload(self) -> T;
}

/// What a closure returns that an engine runs: `()`, unless it never returns. Only to say, where it
/// returns something else, what to write.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a closure for an `Engine` returns `()`, and not `{Self}`",
    label = "this closure returns `{Self}`",
    note = "an engine runs no futures: spawn a task that awaits `tickless::sleep` and then yours",
    note = "a result that nobody needs is dropped by a `;` behind it"
)]
pub trait Nothing {}

/// Finds the type of `!`.
#[doc(hidden)]
pub trait Returns {
    /// What a function returns.
    type Output;
}

/// Handles batches of due payloads.
///
/// A shard's reaper calls the handler on its own thread. Reapers of several shards call it at the
/// same time. If it keeps a payload for longer than [`takeover`], another
/// thread takes the shard over and calls it with the rest of the batch, also at the same time;
/// otherwise no other timer of the shard fires while it runs. It may schedule, cancel and reset
/// timers. It may not stop the engine or run its turns (both return an error).
///
/// A handler of tasks never sees what is the engine's own. That runs on the thread that serves the
/// shard, before the handler gets the rest of the batch, so it does not wait in a queue behind slow
/// tasks:
/// - the timers of futures (sleeps, timeouts, intervals, delay queues), whose tasks are woken;
/// - a heartbeat's looks for beats;
/// - the limits of a retry's attempts.
///
/// The user's functions do pass through the handler: the runs of what repeats, attempts, and what a
/// heartbeat or a retry calls in the end. (While a handler waits, for room in a full channel, say,
/// what is due behind its batch waits with it.)
///
/// Every `Fn(Batch<'_, T>)` is a handler:
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::{Batch, Engine};
///
/// let (sender, receiver) = mpsc::channel();
/// let engine = Engine::typed(move |batch: Batch<'_, u64>| {
///     for connection in batch {
///         let _ = sender.send(connection);
///     }
/// })?;
/// engine.schedule_detached(Duration::from_millis(2), 7)?;
/// assert_eq!(receiver.recv(), Ok(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A type of your own can implement it too, for example to share state. The engine drops its
/// handler when it has stopped.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
/// use tickless::{Batch, Builder, Handler, ManualClock};
///
/// /// Closes connections that have been idle for too long, and counts them by kind.
/// struct IdleConnections {
///     closed: Arc<[AtomicU64; 2]>,
/// }
///
/// struct Connection {
///     number: u64,
///     is_secure: bool,
/// }
///
/// impl Handler<Connection> for IdleConnections {
///     fn fire(&self, mut batch: Batch<'_, Connection>) {
///         while let Some(due) = batch.next_due() {
///             let Connection { number, is_secure } = due.payload;
///             println!("connection {number} was due at {:?}", due.deadline);
///             // Handlers of several shards run at the same time.
///             self.closed[usize::from(is_secure)].fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let closed = Arc::new([const { AtomicU64::new(0) }; 2]);
/// let handler = IdleConnections { closed: closed.clone() };
/// let engine = Builder::new().manual_clock(&ManualClock::new()).build_with_handler(handler)?;
/// engine.schedule_detached(Duration::from_secs(60), Connection { number: 7, is_secure: true })?;
/// assert_eq!(engine.advance(Duration::from_secs(60))?, 1);
/// assert_eq!(closed[1].load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`takeover`]: https://docs.rs/tickless/latest/tickless/struct.Builder.html#method.takeover
pub trait Handler<T>: Send + Sync {
    /// Handles a batch. A panic is caught and counted, and payloads that were not taken yet are
    /// handed over again (see [`Batch`]). If none was taken, the first is dropped, so that this
    /// ends.
    fn fire(&self, batch: Batch<'_, T>);
}

impl<T> IntoPayload<T> for T {
    #[inline(always)]
    fn into_payload(self) -> T {
        self
    }
}

impl<F: FnOnce() -> R + Send + 'static, R: Nothing> IntoPayload<Task> for F {
    #[inline(always)]
    fn into_payload(self) -> Task {
        Task::of_any(self)
    }
}

impl Nothing for () {}

/// (Without a closure's type at hand, nobody can write `!` here.)
impl Nothing for <fn() -> ! as Returns>::Output {}

impl<R> Returns for fn() -> R {
    type Output = R;
}

impl<T, F: Fn(Batch<'_, T>) + Send + Sync> Handler<T> for F {
    #[inline]
    fn fire(&self, batch: Batch<'_, T>) {
        self(batch);
    }
}

/// Runs each closure on the reaper's thread. This is the shortest path. If a closure takes longer
/// than [`takeover`], another thread goes on with the timers of its
/// shard.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Builder, Inline, ManualClock, Task};
///
/// // `Builder::build` makes the same engine.
/// let engine = Builder::new().manual_clock(&ManualClock::new()).build_with_handler(Inline)?;
/// engine.schedule_detached(Duration::from_secs(1), Task::new(|| println!("due")))?;
/// assert_eq!(engine.advance(Duration::from_secs(1))?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`takeover`]: https://docs.rs/tickless/latest/tickless/struct.Builder.html#method.takeover
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Handler<Task> for Inline {
    #[inline]
    fn fire(&self, batch: Batch<'_, Task>) {
        batch.run_all();
    }
}
