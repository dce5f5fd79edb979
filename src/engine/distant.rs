//! An engine as it is known to what waits in it: by number, so that nothing keeps it alive.
//!
//! What schedules itself anew each time that it runs would otherwise hold the engine that holds
//! it, and neither would ever end. Nor does it count references on what all threads share: the
//! thread's own part of the engine is found as a handle finds it.

use std::fmt;
use std::mem::ManuallyDrop;

use crate::dispatch::Task;
use crate::error::ScheduleError;

use super::local::{self, Lent, Local};
use super::{Engine, Handle};

/// An engine for closures that may have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Distant {
    number: u32,
}

// === impl Distant ===

impl Distant {
    /// That engine, from afar.
    pub(crate) fn of(engine: &Engine) -> Distant {
        Distant { number: engine.as_typed().number() }
    }

    /// Schedules `task` for a time on the engine's clock; `u64::MAX` is never.
    pub(crate) fn schedule_at_ns(
        self,
        deadline_ns: u64,
        task: Task,
    ) -> Result<Handle, ScheduleError<Task>> {
        let Some(mut local): Option<Lent<Task>> = local::of_number(self.number) else {
            return Err(ScheduleError::Stopped(task));
        };
        let Local { core, watch, .. } = &mut *local;
        let now_ns = watch.now_ns(&core.clock);
        let deadline = core.scale.ceil(deadline_ns);
        local.schedule(deadline, now_ns, ManuallyDrop::new(task), true).map(Handle::new)
    }

    /// The time by the thread's watch: never behind the engine's clock, and cheaper to read.
    /// `None`: the engine is gone.
    #[inline]
    pub(crate) fn watch_ns(self) -> Option<u64> {
        let mut local: Lent<Task> = local::of_number(self.number)?;
        let Local { core, watch, .. } = &mut *local;
        Some(watch.now_ns(&core.clock))
    }
}

impl fmt::Debug for Distant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Distant").field(&self.number).finish()
    }
}
