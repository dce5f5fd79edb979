//! A weak reference to an engine: its number. The timers of the higher-level APIs have one each, so
//! they share no reference count.
//!
//! | to | call |
//! |---|---|
//! | schedule | `schedule_when`, `schedule_at_ns`, `schedule_at_once` |
//! | schedule what `compute` has computed | `schedule_sleep` |
//! | move a timer | `reset_in_place`, `move_to`; for another task in it, `exchange` |
//! | learn when something is due | `due_ns`, `tick_of`, `deadline_of` |
//! | learn the same, unless that has passed | `compute`, `compute_tick` |
//! | read the engine's clock | `now`, `has_reached` |
//! | read the thread's clock, which is cheaper and never behind | `thread_now_ns`, `thread_now` |
//!
//! Each call looks the thread's cache of the engine up. If the engine is gone, a schedule returns
//! the payload in an error, and other calls return what their docs say.

use std::any::TypeId;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use crate::dispatch::{Task, works_for, works_for_any};
use crate::entry::Exchange;
use crate::error::{ResetError, ScheduleError, ScheduleReason};
use crate::memory::Count;
#[cfg(feature = "test-util")]
use crate::sync::Arc;
use crate::time::{Clock, Scale, Tick};

use super::core::Core;
use super::deadline::Deadline;
use super::registry::is_inherited;
#[cfg(feature = "tokio")]
use super::registry::is_of_runtime;
use super::thread_cache::{self, Lent, ThreadCache};
use super::when::Start;
use super::{Engine, Handle, When};

/// A weak reference to an engine: its number. It does not keep the engine alive.
pub struct EngineRef<T = Task> {
    number: u32,
    /// The number is that of an engine with this type of payload.
    payload: PhantomData<fn(T)>,
}

/// The deadline of a timer, as an engine has computed it, and the time at which it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Computed {
    deadline: Tick,
    now_ns: u64,
}

/// A glance at a thread's clock may be behind; a deadline that is further away has not passed.
const NEAR_NS: u64 = 100_000;

// === impl EngineRef: the engine ===

impl<T: Send + 'static> EngineRef<T> {
    /// A reference to this engine.
    pub fn new(engine: &Engine<T>) -> EngineRef<T> {
        EngineRef::numbered(engine.number())
    }

    /// The engine with that number, whose payloads are of this type.
    pub(super) fn numbered(number: u32) -> EngineRef<T> {
        EngineRef { number, payload: PhantomData }
    }

    pub(super) fn number(self) -> u32 {
        self.number
    }

    #[inline]
    fn lent(self) -> Option<Lent<T>> {
        thread_cache::of(self.number)
    }

    /// The engine's core, unless it is gone.
    #[cfg(feature = "test-util")]
    pub(super) fn core(self) -> Option<Arc<Core<T>>> {
        Some(self.lent()?.core.clone())
    }

    /// Whether the engine belongs to a process that this one was forked from: the timers that it
    /// took never end here.
    #[inline]
    pub fn is_inherited(self) -> bool {
        is_inherited(self.number)
    }

    /// Whether the calling thread must not wait for a timer of the engine: it runs one of the
    /// engine's tasks, and no thread is to spare that would take its shard over. Or a stop would
    /// return the timer's payload, when it has waited for that task.
    #[inline]
    pub(crate) fn must_not_wait(self) -> bool {
        works_for_any() && self.refuses_to_wait()
    }

    #[inline(never)]
    fn refuses_to_wait(self) -> bool {
        let Some(cache) = self.lent() else { return false };
        let core = &cache.core;
        // (When an engine is stopping, the wait ends.)
        let is_task = works_for(core.party()) && !core.is_stopping();
        is_task && (TypeId::of::<T>() != TypeId::of::<Task>() || !core.may_wait())
    }

    /// Whether the calling thread is in a tokio runtime whose time is paused, and the engine's time
    /// goes on. An engine on that runtime follows it.
    #[cfg(all(feature = "tokio", debug_assertions))]
    pub(crate) fn is_beside_paused_time(self) -> bool {
        let core = self.lent().map(|cache| cache.core.clone());
        core.is_some_and(|core| core.is_beside_paused_time())
    }

    /// Why the engine, which has stopped, fires no timer for what awaits it.
    #[cold]
    pub(crate) fn why_stopped(self) -> ScheduleReason {
        #[cfg(feature = "tokio")]
        if is_of_runtime(self.number) && !self.is_inherited() {
            // One that is gone may have ended before: that is known of one that is there.
            if self.lent().is_none_or(|cache| cache.core.has_ended_with_runtime()) {
                return ScheduleReason::RuntimeEnded;
            }
        }
        ScheduleReason::Stopped
    }

    /// Counts a timer that has fired and was scheduled again, without a task of the user.
    #[cold]
    pub(crate) fn count_rearmed(self) {
        if let Some(mut cache) = self.lent() {
            cache.producer.count(Count::Rearmed);
        }
    }
}

// === impl EngineRef: scheduling ===

impl<T: Send + 'static> EngineRef<T> {
    /// Schedules `payload` as the engine itself does.
    ///
    /// # Errors
    /// The engine is full, has stopped or is gone; the payload comes back in the error.
    #[inline]
    pub(crate) fn schedule_when(
        self,
        when: When,
        payload: T,
    ) -> Result<Handle<T>, ScheduleError<T>> {
        let Some(mut cache) = self.lent() else { return Err(ScheduleError::stopped(payload)) };
        let now_ns = cache.now_ns();
        let deadline = when.tick(&cache.core, now_ns);
        file::<_, false>(cache, Computed { deadline, now_ns }, payload)
    }

    /// Schedules `payload` for a time on the engine's clock; `u64::MAX` is never. `is_new`: it may
    /// be refused. Otherwise it is the next timer of something that the engine has accepted before,
    /// which is never full for that.
    ///
    /// # Errors
    /// As `schedule_when`.
    pub fn schedule_at_ns(
        self,
        deadline_ns: u64,
        payload: T,
        is_new: bool,
    ) -> Result<Handle<T>, ScheduleError<T>> {
        let Some(mut cache) = self.lent() else { return Err(ScheduleError::stopped(payload)) };
        let now_ns = cache.now_ns();
        let deadline = cache.core.scale.ceil(deadline_ns);
        let computed = Computed { deadline, now_ns };
        if is_new {
            file::<_, false>(cache, computed, payload)
        } else {
            file_again(cache, computed, payload)
        }
    }

    /// Schedules a payload that is due at once: it waits for no tick. It belongs to something that
    /// was accepted before: the engine is never full for it.
    ///
    /// # Errors
    /// The engine has stopped or is gone; the payload comes back in the error.
    pub(crate) fn schedule_at_once(self, payload: T) -> Result<(), ScheduleError<T>> {
        let Some(mut cache) = self.lent() else { return Err(ScheduleError::stopped(payload)) };
        let now_ns = cache.now_ns();
        let deadline = cache.core.scale.floor(now_ns);
        file_again(cache, Computed { deadline, now_ns }, payload).map(drop)
    }

    /// Whether tasks of the engine's own do not pass through its handler, which may keep what it
    /// gets. Otherwise all of them run where they are due.
    pub(crate) fn keeps_own_tasks(self) -> bool {
        self.lent().is_some_and(|cache| cache.core.own.is_some())
    }
}

impl EngineRef {
    /// Schedules a sleep's task for a deadline that this engine has just computed, on the same
    /// thread. (The time in `computed` is a little old by now. That is harmless, because a producer
    /// may be delayed after any reading of its clock.)
    ///
    /// # Errors
    /// The engine is full, has stopped or is gone; the task comes back in the error.
    #[inline]
    pub(crate) fn schedule_sleep(
        self,
        computed: Computed,
        task: Task,
    ) -> Result<Handle, ScheduleError<Task>> {
        let Some(cache) = self.lent() else { return Err(ScheduleError::stopped(task)) };
        file::<_, true>(cache, computed, task)
    }
}

// === impl EngineRef: moving a timer ===

impl EngineRef {
    /// Moves a timer of this engine if one CAS can: see [`Handle::reset_in_place`].
    pub(crate) fn reset_in_place(self, handle: &mut Handle, tick: Tick) -> bool {
        let Some(mut cache) = self.lent() else { return false };
        cache.now_ns();
        reset_in_place(&mut cache, handle, tick)
    }

    /// Moves a timer of this engine to a deadline of this engine, which is then in the form that is
    /// quick to read. Where one CAS moves it, this reads the thread's clock alone.
    ///
    /// # Errors
    /// As [`Handle::reset`].
    pub(crate) fn move_to(
        self,
        handle: &mut Handle,
        deadline: &mut Deadline,
    ) -> Result<(), ResetError> {
        if let Some(mut cache) = self.lent() {
            if let Deadline::At(_) = deadline {
                // Others were computed from the thread's clock a moment ago.
                cache.now_ns();
            }
            let due_ns = cache.core.due_ns(*deadline);
            *deadline = cache.core.quick(*deadline, due_ns);
            let tick = cache.core.scale.ceil(due_ns);
            if reset_in_place(&mut cache, handle, tick) {
                return Ok(());
            }
        }
        handle.reset(deadline.instant().map_or(When::after(Duration::MAX), When::at))
    }

    /// Replaces the task of a timer of this engine. Returns the task that is not needed any more:
    /// the old one or, if the timer has fired or its engine has stopped, `task`.
    pub(crate) fn exchange(self, handle: &mut Handle, task: Task) -> Task {
        // SAFETY: this is the handle, and the entry is filed again below.
        let (old, deadline) = match unsafe { handle.as_entry().exchange(task) } {
            Exchange::Done(task) | Exchange::Gone(task) => return task,
            Exchange::Unlinked(old, deadline) => (old, deadline),
        };
        self.file_exchanged(handle, deadline);
        old
    }

    /// The rest of an exchange during which the entry was unlinked.
    #[cold]
    fn file_exchanged(self, handle: &mut Handle, deadline: Tick) {
        // If the engine is gone, the entry stays in no list: the timer is stranded.
        let Some(mut cache) = self.lent() else {
            // SAFETY: as below; `exchange` has put the payload, and this is the handle.
            return unsafe { handle.as_entry().strand_unlinked(deadline) };
        };
        let now_ns = cache.now_ns();
        let ThreadCache { core, producer, shard, .. } = &mut *cache;
        let (shard, now) = (&core.shards[*shard as usize], core.scale.floor(now_ns));
        // SAFETY: this is the handle, and `exchange` has found the entry unlinked.
        let filed =
            unsafe { producer.file_exchanged(&core.shared, shard, handle.entry(), deadline, now) };
        if let Some(deferred) = filed {
            cache.give_back_with_timer(deferred);
        }
    }
}

// === impl EngineRef: when something is due ===

impl<T: Send + 'static> EngineRef<T> {
    /// Returns the time on the engine's clock at which `when` is due, for `schedule_at_ns`. If the
    /// engine is gone, any time does: that returns an error.
    #[inline]
    pub fn due_ns(self, when: When) -> u64 {
        let Some(mut cache) = self.lent() else { return 0 };
        let now_ns = cache.now_ns();
        when.due_ns(&cache.core, now_ns)
    }

    /// Returns the length of a tick. `None`: the engine is gone.
    pub(crate) fn tick(self) -> Option<Duration> {
        Some(Duration::from_nanos(self.lent()?.core.scale.tick_ns()))
    }
}

impl EngineRef {
    /// Returns the tick at which a timer for `when` is due. `None`: the engine is gone.
    #[inline]
    pub(crate) fn tick_of(self, when: When) -> Option<Tick> {
        let mut cache = self.lent()?;
        let now_ns = cache.now_ns();
        Some(when.tick(&cache.core, now_ns))
    }

    /// Returns the deadline of a sleep that is due `when`: never, if that is too far away to
    /// represent, or if the engine is gone.
    #[inline]
    pub(crate) fn deadline_of(self, when: When) -> Deadline {
        match when {
            When { start: Start::At(deadline), slack: Duration::ZERO, .. } => {
                return Deadline::At(deadline);
            }
            // The thread's clock may be ahead of the engine's: the result is to be now, not soon.
            When { start: Start::After(Duration::ZERO), slack: Duration::ZERO, .. } => {
                return self.deadline_now();
            }
            _ => {}
        }
        let Some(mut cache) = self.lent() else { return Deadline::Never };
        let now_ns = cache.now_ns();
        cache.core.deadline_at(when.due_ns(&cache.core, now_ns))
    }

    /// The present, by the engine's clock; never, if the engine is gone.
    #[inline(never)]
    fn deadline_now(self) -> Deadline {
        self.now().into()
    }

    /// Computes when a timer for `deadline`, one of this engine's, is due. Returns `None` if the
    /// engine's clock has reached `deadline`. That clock is read only if a glance at the thread's
    /// own clock says that `deadline` is near.
    ///
    /// Always inlined, as `has_passed` is: each sleep and each reset passes here.
    #[inline(always)]
    pub(crate) fn compute(self, deadline: Deadline) -> Option<Computed> {
        self.compute_ns(|core| core.due_ns(deadline))
    }

    /// As `compute`, for a tick of this engine.
    pub(crate) fn compute_tick(self, tick: Tick) -> Option<Computed> {
        self.compute_ns(|core| core.scale.start_ns(tick).unwrap_or(u64::MAX))
    }

    #[inline(always)]
    fn compute_ns(self, due_ns: impl FnOnce(&Core<Task>) -> u64) -> Option<Computed> {
        let Some(mut cache) = self.lent() else {
            // The engine is gone: `schedule` returns the error.
            return Some(Computed { deadline: Tick::NEVER, now_ns: 0 });
        };
        let ThreadCache { core, thread_clock, .. } = &mut *cache;
        let now_ns = thread_clock.glance_ns(&core.clock);
        let due_ns = due_ns(core);
        let is_near = now_ns.saturating_add(NEAR_NS) >= due_ns && due_ns != u64::MAX;
        if is_near && core.clock.now_ns() >= due_ns {
            return None;
        }
        Some(Computed { deadline: core.scale.ceil(due_ns), now_ns })
    }

    /// Whether the engine's clock has reached a deadline of this engine.
    #[inline(always)]
    pub(crate) fn has_passed(self, deadline: Deadline) -> bool {
        self.compute(deadline).is_none()
    }
}

// === impl EngineRef: clocks ===

impl EngineRef {
    /// Returns the time that the engine's clock shows. `None`: the engine is gone.
    pub(crate) fn now(self) -> Option<Instant> {
        Some(self.lent()?.core.instant_now())
    }

    /// Whether the engine's clock has reached `deadline_ns`. `false` if the engine is gone.
    pub fn has_reached(self, deadline_ns: u64) -> bool {
        self.lent().is_some_and(|cache| cache.core.clock.now_ns() >= deadline_ns)
    }

    /// Returns the time by the thread's clock, which is never behind the engine's clock and cheaper
    /// to read. `None`: the engine is gone.
    #[inline]
    pub(crate) fn thread_now_ns(self) -> Option<u64> {
        Some(self.lent()?.now_ns())
    }

    /// The same as an instant.
    #[inline]
    #[cfg(feature = "hyper")]
    pub(crate) fn thread_now(self) -> Option<Instant> {
        let mut cache = self.lent()?;
        let now_ns = cache.now_ns();
        cache.core.clock.instant_at(now_ns)
    }

    /// Returns the engine's clock, and its ticks. `None`: the engine is gone.
    pub(crate) fn time(self) -> Option<(Clock, Scale)> {
        let cache = self.lent()?;
        Some((cache.core.clock.clone(), cache.core.scale))
    }
}

// Not derived: that would require the same of `T`.
impl<T> Clone for EngineRef<T> {
    fn clone(&self) -> EngineRef<T> {
        *self
    }
}

impl<T> Copy for EngineRef<T> {}

debug! { impl[T] EngineRef[T] { number } }

/// Moves a timer of the engine if one CAS can, and counts it. The thread's clock was just read.
fn reset_in_place<T>(cache: &mut ThreadCache<T>, handle: &mut Handle<T>, tick: Tick) -> bool
where
    T: Send + 'static,
{
    let is_moved = handle.reset_in_place(tick, cache.thread_clock.tick());
    if is_moved {
        cache.producer.count(Count::Reset);
    }
    is_moved
}

/// Files a payload in its engine. `EXEMPT`: it is not to be admitted.
#[inline]
fn file<T: Send + 'static, const EXEMPT: bool>(
    cache: Lent<T>,
    Computed { deadline, now_ns }: Computed,
    payload: T,
) -> Result<Handle<T>, ScheduleError<T>> {
    let payload = ManuallyDrop::new(payload);
    // SAFETY: nothing is kept.
    let filed = unsafe { cache.schedule::<true, EXEMPT>(deadline, now_ns, payload, true, |_| ()) };
    filed.map(Handle::new)
}

/// Files the next payload of something that the engine has accepted before.
fn file_again<T: Send + 'static>(
    cache: Lent<T>,
    computed: Computed,
    payload: T,
) -> Result<Handle<T>, ScheduleError<T>> {
    cache.core.shared.admit_again(&payload);
    // It has been admitted.
    file::<_, true>(cache, computed, payload)
}
