//! The engine for payloads of any one type.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::dispatch::Handler;
use crate::entry::{self, Entry};
use crate::error::{BuildError, ScheduleError, StopError};
use crate::shard::{Counted, Violation};
use crate::sync::{Arc, JoinHandle, Mutex};
use crate::time::Clock;

use super::core::Core;
use super::driving::is_inside;
use super::leftover::Leftover;
use super::local::{self, Local};
use super::snapshot::Snapshot;
use super::{Builder, Handle, Stats};

/// A timer engine whose payload is any `T`, handed to one [`Handler`] in batches.
///
/// This is the engine without closures: where all timers of a service do the same kind of thing,
/// a payload of a few words (a connection's number, say) says which.
///
/// Clones are cheap and share the engine. When the last clone is dropped the engine stops, and
/// what is pending is dropped (a panic in that ends there); [`stop`](TypedEngine::stop) returns it
/// instead.
pub struct TypedEngine<T: Send + 'static> {
    inner: Arc<Inner<T>>,
}

/// Stops the engine when its last user goes.
struct Inner<T: Send + 'static> {
    core: Arc<Core<T>>,
    has_threads: bool,
    threads: Mutex<Vec<JoinHandle<Leftover<T>>>>,
}

// === impl TypedEngine ===

impl<T: Send + 'static> TypedEngine<T> {
    /// An engine with default settings: see [`Builder`].
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn new(handler: impl Handler<T> + 'static) -> Result<TypedEngine<T>, BuildError> {
        Builder::new().build_typed(handler)
    }

    pub(super) fn from_parts(
        core: Arc<Core<T>>,
        has_threads: bool,
        threads: Vec<JoinHandle<Leftover<T>>>,
    ) -> TypedEngine<T> {
        let threads = Mutex::new(threads);
        TypedEngine { inner: Arc::new(Inner { core, has_threads, threads }) }
    }

    /// Schedules `payload` to be handed over `delay` from now: never earlier, and later by less
    /// than a tick (plus the time that the system needs to wake the reaper). A delay too long to
    /// represent never ends.
    ///
    /// One exchange on the seat of a timer that this thread cancelled, or one push; never waits.
    /// O(1), whatever is pending.
    ///
    /// # Errors
    /// The engine is full or has stopped; the payload comes back in the error.
    #[inline]
    pub fn schedule(&self, delay: Duration, payload: T) -> Result<Handle<T>, ScheduleError<T>> {
        self.file_after(delay, payload, true).map(Handle::new)
    }

    /// As [`schedule`](TypedEngine::schedule), for a point in time. What is past fires at once.
    ///
    /// # Errors
    /// As [`schedule`](TypedEngine::schedule).
    #[inline]
    pub fn schedule_at(
        &self,
        deadline: Instant,
        payload: T,
    ) -> Result<Handle<T>, ScheduleError<T>> {
        let mut local = local::of(self.core());
        let Local { core, watch, .. } = &mut *local;
        let now_ns = watch.now_ns(&core.clock);
        let deadline = core.scale.ceil(core.clock.ns_at(deadline));
        local.schedule(deadline, now_ns, ManuallyDrop::new(payload), true).map(Handle::new)
    }

    /// As [`schedule`](TypedEngine::schedule), for a timer that nobody will cancel: without a
    /// handle it also fires for less.
    ///
    /// # Errors
    /// As [`schedule`](TypedEngine::schedule).
    #[inline]
    pub fn schedule_detached(&self, delay: Duration, payload: T) -> Result<(), ScheduleError<T>> {
        self.file_after(delay, payload, false).map(drop)
    }

    /// Stops the engine: no timer fires from here on, and every payload that was pending is
    /// returned. Waits for tasks that are running. Scheduling is refused from now on.
    ///
    /// A payload is handed over, given back by `cancel`, `reset` or `schedule`, or returned
    /// here: exactly one of these, however they race. Stopping again returns nothing.
    ///
    /// # Errors
    /// The call comes from one of the engine's own tasks, for which it would wait.
    pub fn stop(&self) -> Result<Vec<T>, StopError> {
        if is_inside(self.core().id()) {
            return Err(StopError::InsideTask);
        }
        Ok(self.inner.stop())
    }

    /// How many timers are pending. Sums up what each thread has counted: exact when no thread
    /// is inside a call.
    pub fn len(&self) -> usize {
        self.core().pool.tallies.pending() as usize
    }

    /// Whether no timer is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The engine's time.
    pub fn now(&self) -> Instant {
        let clock = &self.core().clock;
        clock.instant_at(clock.now_ns()).unwrap_or_else(Instant::now)
    }

    /// How many shards the engine has.
    pub fn shards(&self) -> usize {
        self.core().shards.len()
    }

    /// From now on, what the calling thread schedules goes to this shard: for threads that each
    /// drive one. Threads that do not say so are spread over the shards, and their timers may also
    /// take the places of cancelled ones on any of them.
    ///
    /// # Panics
    /// There is no such shard.
    pub fn bind_thread(&self, shard: usize) {
        assert!(shard < self.shards(), "shard {shard} of {}", self.shards());
        let sweep = local::of(self.core()).bind(shard as u32);
        self.core().ask_for_sweep(sweep);
    }

    /// What the engine has counted so far. Takes no lock.
    pub fn stats(&self) -> Stats {
        Stats::of(self.core())
    }

    /// What is pending, found by walking every bucket while everything runs. Takes no lock and
    /// holds nobody up. O(n).
    ///
    /// Weakly consistent: what is pending throughout is in it, unless it was being moved to
    /// another bucket; what comes or goes meanwhile may be in it or not.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.core(), &entry::read())
    }

    /// Walks every invariant of the engine: for tests and fuzzing, while no other thread uses
    /// the engine. O(n).
    ///
    /// # Errors
    /// What does not hold.
    ///
    /// # Panics
    /// The call comes from one of the engine's own tasks.
    pub fn check(&self) -> Result<(), Violation> {
        let core = self.core();
        assert!(!is_inside(core.id()), "a task cannot check its own engine");
        let mut sum = Counted::default();
        let mut is_closed = false;
        for shard in &core.shards {
            let mut owner = shard.owner().lock().expect("a turn does not panic");
            is_closed |= owner.is_closed();
            let counted = shard.check(&mut owner, core.now())?;
            sum.pending += counted.pending;
            sum.kept += counted.kept;
            sum.dead += counted.dead;
        }
        if !is_closed {
            Violation::unless_equal("pending timers", sum.pending, self.len() as u64)?;
            Violation::unless_equal("dead entries", sum.dead, core.pool.tallies.dead())?;
        }
        Ok(())
    }

    /// The engine's number: no other of this process has it.
    pub(crate) fn number(&self) -> u32 {
        self.core().id()
    }

    /// The engine's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.core().clock
    }

    pub(super) fn core(&self) -> &Arc<Core<T>> {
        &self.inner.core
    }

    pub(super) fn has_threads(&self) -> bool {
        self.inner.has_threads
    }

    #[inline(always)]
    fn file_after(
        &self,
        delay: Duration,
        payload: T,
        owned: bool,
    ) -> Result<NonNull<Entry<T>>, ScheduleError<T>> {
        // As in `Keeper::schedule`: nothing panics until it is in its entry.
        let payload = ManuallyDrop::new(payload);
        let mut local = local::of(self.core());
        let Local { core, watch, .. } = &mut *local;
        let now_ns = watch.now_ns(&core.clock);
        let deadline = core.scale.ceil_after(now_ns, delay);
        local.schedule(deadline, now_ns, payload, owned)
    }
}

impl<T: Send + 'static> Clone for TypedEngine<T> {
    fn clone(&self) -> TypedEngine<T> {
        TypedEngine { inner: self.inner.clone() }
    }
}

impl<T: Send + 'static> fmt::Debug for TypedEngine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedEngine")
            .field("shards", &self.shards())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

// === impl Inner ===

impl<T: Send + 'static> Inner<T> {
    fn stop(&self) -> Vec<T> {
        // Outside the lock: it calls hooks, which may stop the engine as well.
        self.core.stop_all();
        // A second stopper waits here until the first is done, and finds nothing left.
        let mut threads = self.threads.lock().expect("nothing panics under this lock");
        let mut returned = Vec::new();
        for thread in threads.drain(..) {
            returned.append(&mut thread.join().expect("a reaper does not panic").claim());
        }
        for shard in &self.core.shards {
            returned.append(&mut self.core.close(shard));
        }
        returned
    }
}

impl<T: Send + 'static> Drop for Inner<T> {
    fn drop(&mut self) {
        if is_inside(self.core.id()) {
            // The last clone went inside a task: the reapers close their shards by themselves,
            // after the task.
            self.core.stop_all();
        } else {
            drop(Leftover::new(self.stop()));
        }
    }
}
