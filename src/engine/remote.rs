//! An engine by its number: for what there are many of, and what would otherwise count a
//! reference that all threads share each time that it comes and goes.

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

/// An engine for closures, by its number. It does not keep the engine alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineRef {
    number: u32,
}

/// A time for a timer, as an engine files it.
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

    /// The engine's time, as its clock shows it. `None`: it is gone.
    pub(crate) fn now(self) -> Option<Instant> {
        let cache = self.lent()?;
        cache.core.clock.instant_at(cache.core.clock.now_ns())
    }

    /// How long a tick is. `None`: the engine is gone.
    pub(crate) fn tick(self) -> Option<Duration> {
        Some(Duration::from_nanos(self.lent()?.core.scale.tick_ns()))
    }

    /// The time that `when` is. `None`: it is too far away to represent, or the engine is gone.
    #[inline]
    pub(crate) fn time_of(self, when: When) -> Option<Instant> {
        if let Some(deadline) = when.as_instant() {
            return Some(deadline);
        }
        if when.is_now() {
            // The thread's watch may be ahead of the clock: this is to be now, not soon.
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

    /// The time by the thread's watch: never behind the engine's clock, and cheaper to read.
    /// `None`: the engine is gone.
    #[inline]
    pub(crate) fn watch_ns(self) -> Option<u64> {
        let mut cache = self.lent()?;
        let ThreadCache { core, watch, .. } = &mut *cache;
        Some(watch.now_ns(&core.clock))
    }

    /// The time on the engine's clock that `when` is, for `schedule_at_ns`. `None`: the engine is
    /// gone.
    #[inline]
    pub(crate) fn due_ns(self, when: When) -> Option<u64> {
        let mut cache = self.lent()?;
        let ThreadCache { core, watch, .. } = &mut *cache;
        let now_ns = watch.now_ns(&core.clock);
        Some(when.due_ns(core, now_ns))
    }

    /// Reckons when a timer for `deadline` is due; `None` there: never. `None` here: the engine's
    /// clock has got to it. Asks the clock itself only where the thread's watch, which is never
    /// behind it, says that it might have.
    #[inline]
    pub(crate) fn compute(self, deadline: Option<Instant>) -> Option<Computed> {
        let Some(mut cache) = self.lent() else {
            // Whoever schedules it is told.
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

    /// Schedules `task` for what this engine has just computed, on the same thread. (That time has
    /// moved on since then is nothing new to whom it is filed for.)
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

    /// Whether the engine belongs to a process that this one was forked from: what it has taken
    /// never ends here.
    #[inline]
    pub(crate) fn is_inherited(self) -> bool {
        is_inherited(self.number)
    }

    /// Whether the engine's clock has got to that time. Not if the engine is gone.
    pub(crate) fn has_reached(self, deadline_ns: u64) -> bool {
        self.lent().is_some_and(|cache| cache.core.clock.now_ns() >= deadline_ns)
    }

    #[inline]
    fn lent(self) -> Option<Lent<Task>> {
        thread_cache::of_number(self.number)
    }
}

/// Gives back what was lent for a schedule, and makes a handle of what came of it.
#[inline]
fn finish(
    cache: Lent<Task>,
    scheduled: Result<(NonNull<Entry<Task>>, Deferred), ScheduleError<Task>>,
) -> Result<Handle, ScheduleError<Task>> {
    let (entry, deferred) = scheduled?;
    // The handle first: what is left to be done may unwind.
    let handle = Handle::new(entry);
    cache.give_back(deferred);
    Ok(handle)
}
