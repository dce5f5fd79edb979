//! A weak engine id: a door's many timers know their engine by its number, which avoids a contended
//! reference count.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::dispatch::Task;
use crate::entry::Entry;
use crate::error::ScheduleError;
use crate::producer::Deferred;
use crate::time::Tick;

use super::thread_cache::{self, Lent, ThreadCache, is_inherited};
use super::{Engine, Handle, When};

/// A weak reference to an engine for closures: its number. It does not keep the engine alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineRef {
    number: u32,
}

/// The deadline of a timer, as an engine has computed it, and the time at which it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Computed {
    deadline: Tick,
    now_ns: u64,
}

// === impl EngineRef ===

impl EngineRef {
    pub(crate) fn new(engine: &Engine<Task>) -> EngineRef {
        EngineRef { number: engine.number() }
    }

    /// Returns the time that the engine's clock shows. `None`: the engine is gone.
    pub(crate) fn now(self) -> Option<Instant> {
        let cache = self.lent()?;
        cache.core.clock.instant_at(cache.core.clock.now_ns())
    }

    /// Returns the length of a tick. `None`: the engine is gone.
    pub(crate) fn tick(self) -> Option<Duration> {
        Some(Duration::from_nanos(self.lent()?.core.scale.tick_ns()))
    }

    /// Returns the instant at which `when` is due. `None`: it is too far away to represent, or the
    /// engine is gone.
    #[inline]
    pub(crate) fn time_of(self, when: When) -> Option<Instant> {
        if let Some(deadline) = when.as_instant() {
            return Some(deadline);
        }
        if when.is_now() {
            // The thread's clock may be ahead of the engine's: the result is to be now, not soon.
            return self.now();
        }
        let mut cache = self.lent()?;
        let ThreadCache { core, watch, .. } = &mut *cache;
        let now_ns = watch.now_ns(&core.clock);
        match when.due_ns(core, now_ns) {
            u64::MAX => None,
            due_ns => core.clock.instant_at(due_ns),
        }
    }

    /// Returns the time by the thread's clock, which is never behind the engine's clock and cheaper
    /// to read. `None`: the engine is gone.
    #[inline]
    pub(crate) fn watch_ns(self) -> Option<u64> {
        let mut cache = self.lent()?;
        let ThreadCache { core, watch, .. } = &mut *cache;
        Some(watch.now_ns(&core.clock))
    }

    /// Returns the time on the engine's clock at which `when` is due, for `schedule_at_ns`. `None`:
    /// the engine is gone.
    #[inline]
    pub(crate) fn due_ns(self, when: When) -> Option<u64> {
        let mut cache = self.lent()?;
        let ThreadCache { core, watch, .. } = &mut *cache;
        let now_ns = watch.now_ns(&core.clock);
        Some(when.due_ns(core, now_ns))
    }

    /// Computes when a timer for `deadline` is due; a `deadline` of `None` is never. Returns `None`
    /// if the engine's clock has reached `deadline`. The engine's clock is read only if the
    /// thread's clock, which is never behind it, has reached `deadline`.
    #[inline]
    pub(crate) fn compute(self, deadline: Option<Instant>) -> Option<Computed> {
        let Some(mut cache) = self.lent() else {
            // The engine is gone: `schedule` returns the error.
            return Some(Computed { deadline: Tick::NEVER, now_ns: 0 });
        };
        let ThreadCache { core, watch, .. } = &mut *cache;
        let now_ns = watch.now_ns(&core.clock);
        let Some(deadline) = deadline else {
            return Some(Computed { deadline: Tick::NEVER, now_ns });
        };
        let deadline_ns = core.clock.ns_at(deadline);
        if now_ns >= deadline_ns && core.clock.now_ns() >= deadline_ns {
            return None;
        }
        Some(Computed { deadline: core.scale.ceil(deadline_ns), now_ns })
    }

    /// Schedules `task` for a deadline that this engine has just computed, on the same thread. (The
    /// time in `computed` is a little old by now. That is harmless, because a producer may be
    /// delayed after any reading of its clock.)
    ///
    /// # Errors
    /// The engine is full, has stopped or is gone; the task comes back in the error.
    #[inline]
    pub(crate) fn schedule(
        self,
        computed: Computed,
        task: Task,
    ) -> Result<Handle, ScheduleError<Task>> {
        let Some(mut cache) = self.lent() else { return Err(ScheduleError::stopped(task)) };
        let Computed { deadline, now_ns } = computed;
        let scheduled = cache.schedule::<true>(deadline, now_ns, ManuallyDrop::new(task), true);
        finish(cache, scheduled)
    }

    /// Schedules `task` for a time on the engine's clock; `u64::MAX` is never.
    ///
    /// # Errors
    /// As `schedule`.
    pub(crate) fn schedule_at_ns(
        self,
        deadline_ns: u64,
        task: Task,
    ) -> Result<Handle, ScheduleError<Task>> {
        let Some(mut cache) = self.lent() else { return Err(ScheduleError::stopped(task)) };
        let ThreadCache { core, watch, .. } = &mut *cache;
        let now_ns = watch.now_ns(&core.clock);
        let deadline = core.scale.ceil(deadline_ns);
        let scheduled = cache.schedule::<true>(deadline, now_ns, ManuallyDrop::new(task), true);
        finish(cache, scheduled)
    }

    /// Whether the engine belongs to a process that this one was forked from: the timers that it
    /// took never end here.
    #[inline]
    pub(crate) fn is_inherited(self) -> bool {
        is_inherited(self.number)
    }

    /// Whether the engine's clock has reached `deadline_ns`. `false` if the engine is gone.
    pub(crate) fn has_reached(self, deadline_ns: u64) -> bool {
        self.lent().is_some_and(|cache| cache.core.clock.now_ns() >= deadline_ns)
    }

    #[inline]
    fn lent(self) -> Option<Lent<Task>> {
        thread_cache::of_number(self.number)
    }
}

/// Gives the thread cache back after a schedule, and makes a handle of the entry.
#[inline]
fn finish(
    cache: Lent<Task>,
    scheduled: Result<(NonNull<Entry<Task>>, Deferred), ScheduleError<Task>>,
) -> Result<Handle, ScheduleError<Task>> {
    let (entry, deferred) = scheduled?;
    // The handle comes first, because the deferred work may unwind.
    let handle = Handle::new(entry);
    cache.give_back(deferred);
    Ok(handle)
}
