//! The engine's type: how an engine is made and shared, and how it schedules payloads. Turns for
//! callers are in `driving`, the end is in `stopping`.
//!
//! *Owner*: any thread, through its thread cache (`thread_cache`); scheduling takes no lock.
//!
//! *Tested by*: nearly all tests.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::dispatch::{Batch, Handler, IntoPayload, Task};
use crate::entry::Entry;
use crate::error::{BindError, BuildError, ScheduleError};
use crate::sync::Arc;
use crate::time::Clock;

use super::core::Core;
use super::crew::Crew;
use super::thread_cache::{self, Lent};
use super::{Builder, Handle, When};

/// A timer engine.
///
/// `Engine` without a type parameter schedules closures; the shard's reaper runs each one when it
/// is due. Closures of a shard run one after another on the reaper's thread, so they should be
/// short (send a message, wake a task, set a flag), or run [elsewhere](crate::dispatch). If one
/// takes longer than some milliseconds, another thread [takes the shard
/// over](Builder::takeover). A closure that captures up to three words needs no allocation.
///
/// `Engine<T>` hands payloads of one type to one [`Handler`], in batches. Use it if all timers of a
/// service do the same kind of thing, and a payload of a few words (a connection's number, for
/// example) tells them apart.
///
/// Clones are cheap and share the engine. When the last clone is dropped, the engine stops and
/// drops all pending payloads; a panic in a payload's destructor is caught. The drop waits for
/// tasks that are running, as [`stop`](Engine::stop) does, unless such a wait would be refused
/// there. To get the payloads back, call [`stop`](Engine::stop). A pending payload that owns a
/// clone keeps the engine alive until it has run or was dropped, like any other clone: an engine
/// whose payloads own the only clones that are left ends only if they fire or are cancelled.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::new()?;
/// let (sender, receiver) = mpsc::channel();
/// engine.schedule_detached(Duration::from_millis(5), move || {
///     let _ = sender.send("due");
/// })?;
/// let timeout = engine.schedule(Duration::from_secs(30), || eprintln!("no answer"))?;
/// assert_eq!(receiver.recv(), Ok("due"));
/// assert!(timeout.cancel(), "the answer came in time");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Forks
/// An engine belongs to the process that built it, whether its threads or its caller drive it. A
/// child made by `fork` has a copy of the engine without its threads. In the child, no timer of
/// that copy fires, no call blocks, and the calls that need the engine fail: `schedule` as on a
/// [stopped] engine, [`stop`](Engine::stop) with [`StopError::Forked`], `turn` and `advance` with
/// [`TurnError::Forked`]. A sleep of the parent ends there as if the engine had stopped. The child
/// can cancel its copies of handles, which gives it its copies of the payloads, but it cannot reset
/// them. Its copy of the engine's memory is never freed. The parent is not affected. The child can
/// build engines of its own, and its [`global`](Engine::global) engine is one of those.
///
/// There are two limits. A child made by a system call that the C library does not know is not
/// recognized. A child made *inside a task* must end, or replace its program, before the task
/// returns. [`wall`](crate::wall), [keyed timers] and a [purgatory] have locks: do not use the
/// parent's in a child.
///
/// [keyed timers]: https://docs.rs/tickless-keyed
/// [purgatory]: https://docs.rs/tickless-purgatory
/// [stopped]: crate::ScheduleReason::Stopped
/// [`StopError::Forked`]: crate::StopError::Forked
/// [`TurnError::Forked`]: crate::TurnError::Forked
pub struct Engine<T: Send + 'static = Task> {
    pub(super) inner: Arc<Inner<T>>,
}

/// The part that an engine's clones share. Stops the engine when the last clone is dropped.
pub(super) struct Inner<T: Send + 'static> {
    pub(super) core: Arc<Core<T>>,
    /// The threads, unless the caller drives the engine.
    pub(super) crew: Option<Arc<Crew<T>>>,
}

// === impl Engine: of closures ===

impl Engine {
    /// Builds an engine for closures, with the default settings of a [`Builder`].
    ///
    /// # Errors
    /// A thread could not be started, or all engine numbers of the process were given out.
    pub fn new() -> Result<Engine, BuildError> {
        Builder::new().build()
    }

    /// Returns a [`Builder`], for an engine of closures or of payloads of any type.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

// === impl Engine: of any payload ===

impl<T: Send + 'static> Engine<T> {
    /// Builds an engine that hands its payloads to `handler` in batches, with the default settings
    /// of a [`Builder`]. A plain closure needs no type annotations here; for a type that implements
    /// [`Handler`] use [`with_handler`](Engine::with_handler).
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let (sender, idle) = mpsc::channel();
    /// let engine = Engine::typed(move |batch| {
    ///     for connection in batch {
    ///         let _ = sender.send(connection);
    ///     }
    /// })?;
    /// let active = engine.schedule(Duration::from_secs(30), 1)?;
    /// engine.schedule_detached(Duration::from_millis(2), 2)?;
    /// assert_eq!(idle.recv()?, 2);
    /// assert!(active.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A closure that calls a method of a payload has to name the payload's type:
    /// `|batch: Batch<'_, Connection>| ..`.
    ///
    /// # Errors
    /// A thread could not be started, or all engine numbers of the process were given out.
    pub fn typed(
        handler: impl Fn(Batch<'_, T>) + Send + Sync + 'static,
    ) -> Result<Engine<T>, BuildError> {
        Builder::new().build_typed(handler)
    }

    /// Builds an engine that calls `each` with each payload, with the default settings of a
    /// [`Builder`]. It is [`typed`](Engine::typed) for handlers that do not care about batches.
    ///
    /// If one call panics, the rest of its batch is still passed on.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let (sender, idle) = mpsc::channel();
    /// let engine = Engine::each(move |connection: u64| drop(sender.send(connection)))?;
    /// engine.schedule_detached(Duration::from_millis(2), 17)?;
    /// assert_eq!(idle.recv()?, 17);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A thread could not be started, or all engine numbers of the process were given out.
    pub fn each(each: impl Fn(T) + Send + Sync + 'static) -> Result<Engine<T>, BuildError> {
        Builder::new().build_each(each)
    }

    /// Builds an engine that hands its payloads to `handler`, with the default settings of a
    /// [`Builder`]. The handler is a [pool, a channel or a runtime](crate::dispatch), or a type of
    /// your own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::dispatch::{Full, Pool};
    ///
    /// let pool = Pool::builder(Full::RunInline).threads(2).build()?;
    /// let engine = Engine::with_handler(pool)?;
    /// engine.schedule_detached(Duration::from_secs(1), || println!("on the pool"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A thread could not be started, or all engine numbers of the process were given out.
    pub fn with_handler(handler: impl Handler<T> + 'static) -> Result<Engine<T>, BuildError> {
        Builder::new().build_with_handler(handler)
    }

    /// The engine's number, which is unique in this process.
    pub(crate) fn number(&self) -> u32 {
        self.core().id()
    }

    /// Whether the engine belongs to a process that this one was forked from.
    pub(crate) fn is_inherited(&self) -> bool {
        self.core().is_inherited()
    }

    /// The engine's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.core().clock
    }

    pub(super) fn core(&self) -> &Arc<Core<T>> {
        &self.inner.core
    }

    /// Lends the calling thread's cache of the engine. `None`: the engine is another process's.
    #[inline(always)]
    pub(super) fn cache(&self) -> Option<Lent<T>> {
        thread_cache::of(self.core().id())
    }
}

// === impl Engine: scheduling ===

impl<T: Send + 'static> Engine<T> {
    /// Schedules `payload` for `when`: a [`Duration`](std::time::Duration) from now, an
    /// [`Instant`](std::time::Instant), or a [`When`] with a slack. On an [`Engine`] of closures
    /// the payload is a closure, which the engine runs; on an `Engine<T>` it is a `T`, which the
    /// engine hands to its handler.
    ///
    /// The timer is never early. It is late by less than a tick, plus the time that the system
    /// needs to wake the reaper and that other tasks take which the reaper runs before it: those of
    /// the shard, and of others of its [group](Builder::reapers). An instant that has passed
    /// is due at once. A timer whose delay is too long to represent never fires.
    ///
    /// This costs one compare-and-swap on the seat of a cancelled timer, or one
    /// push. It never waits. O(1), however many timers are pending.
    ///
    /// Tasks that schedule themselves again by a delay, and once ran in the same tick, stay
    /// together. For many of them, see [`Schedule::spread`](crate::periodic::Schedule::spread).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock, State};
    ///
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let (second, request) = (Duration::from_secs(1), 17);
    /// let timeout = engine.schedule(second, move || println!("no answer to {request}"))?;
    /// let lease = engine.schedule(engine.now() + 5 * second, || println!("it ends"))?;
    /// assert_eq!(engine.advance(second)?, 1);
    /// assert_eq!((timeout.state(), lease.state()), (State::Fired, State::Pending));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The engine is full or has stopped; the payload comes back in the error.
    #[inline]
    pub fn schedule(
        &self,
        when: impl Into<When>,
        payload: impl IntoPayload<T>,
    ) -> Result<Handle<T>, ScheduleError<T>> {
        self.file(when.into(), payload.into_payload(), true, nowhere).map(Handle::new)
    }

    /// As [`schedule`](Engine::schedule), for a handle that lies where the timer's task reaches it:
    /// `store` gets the handle before the timer can fire. It is not called if the engine is full.
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    ///
    /// # Safety
    /// `store` saves the handle and does no more: it neither uses nor drops it, does not use the
    /// engine, and does not panic. After an error, what it has stored is no handle.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn schedule_with(
        &self,
        when: impl Into<When>,
        payload: T,
        store: impl FnOnce(Handle<T>),
    ) -> Result<(), ScheduleError<T>> {
        self.file(when.into(), payload, true, |entry| store(Handle::new(entry))).map(drop)
    }

    /// As [`schedule`](Engine::schedule), for a timer that nobody cancels or resets. Firing is also
    /// cheaper without a handle.
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    #[inline]
    pub fn schedule_detached(
        &self,
        when: impl Into<When>,
        payload: impl IntoPayload<T>,
    ) -> Result<(), ScheduleError<T>> {
        self.file(when.into(), payload.into_payload(), false, nowhere).map(drop)
    }

    /// Binds the calling thread to `shard`: from now on, its timers go there. This is for threads
    /// that each drive one shard. Other threads are spread over the shards, and their timers may
    /// also take the seats of cancelled timers on any of them.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Builder, ManualClock};
    /// # let clock = ManualClock::new();
    /// let engine = Builder::new().manual_clock(&clock).shards(2).build_with_handler(
    ///     |batch: Batch<'_, &str>| batch.for_each(|what| println!("{what}")),
    /// )?;
    /// engine.bind_thread(1)?;
    /// engine.schedule_detached(Duration::from_secs(1), "here")?;
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!([engine.turn(0)?.fired, engine.turn(1)?.fired], [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no such shard; the engine belongs to the parent process; or the thread is ending,
    /// so that its thread-local values are being dropped and it cannot remember the shard.
    pub fn bind_thread(&self, shard: usize) -> Result<(), BindError> {
        let shards = self.core().shards.len();
        if shard >= shards {
            return Err(BindError::NoSuchShard { shard, shards });
        }
        let mut cache = self.cache().ok_or(BindError::Forked)?;
        if cache.is_spare() {
            return Err(BindError::ThreadEnds);
        }
        let deferred = cache.bind(shard as u32);
        cache.give_back(deferred);
        Ok(())
    }

    /// Files `payload` for `when`. `store` gets the entry first: see `schedule_with`.
    #[inline(always)]
    fn file(
        &self,
        when: When,
        payload: T,
        held: bool,
        store: impl FnOnce(NonNull<Entry<T>>),
    ) -> Result<NonNull<Entry<T>>, ScheduleError<T>> {
        // `ManuallyDrop` avoids a second copy for unwinding: nothing panics until the payload is in
        // its entry.
        let payload = ManuallyDrop::new(payload);
        let Some(mut cache) = self.cache() else {
            return Err(ScheduleError::stopped(ManuallyDrop::into_inner(payload)));
        };
        let now_ns = cache.now_ns();
        let deadline = when.tick(&cache.core, now_ns);
        // SAFETY: `store` does nothing, or does what `schedule_with` permits.
        unsafe { cache.schedule::<false, false>(deadline, now_ns, payload, held, store) }
    }
}

/// The `store` of a timer whose handle is needed later alone. (A closure in `schedule` would be
/// another type for each of the user's closures, and all that it is passed to compiled for each.)
#[inline]
fn nowhere<T>(_: NonNull<Entry<T>>) {}

impl<T: Send + 'static> Clone for Engine<T> {
    fn clone(&self) -> Engine<T> {
        Engine { inner: self.inner.clone() }
    }
}

// A panic leaves the engine consistent: no foreign code runs while its state is half-changed, and
// it catches the panics of payloads and handlers.
unwind_safe! { impl[T: Send + 'static] Engine[T] }

debug! { impl[T: Send + 'static] Engine[T] {
    shards = |this| this.shards(),
    len = |this| this.len(),
} }
