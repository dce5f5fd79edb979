//! Deadlines in ticks of the engine or of its precise timers, and moves that touch only the timer's
//! word: for doors that move a timer while they hold a lock, when no foreign code may run and no
//! thread may be waited for.

#[cfg(feature = "keyed")]
use std::time::Instant;

use crate::entry::Reset;
#[cfg(feature = "keyed")]
use crate::sync::prefetch;
use crate::time::Tick;

use super::Handle;
#[cfg(feature = "keyed")]
use super::{Engine, When};

/// The tick at which a timer is due, and the number of the core whose ticks these are.
#[cfg(feature = "keyed")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueTick {
    tick: Tick,
    core: u32,
}

// === impl Engine ===

#[cfg(feature = "keyed")]
impl<T: Send + 'static> Engine<T> {
    /// Returns when a timer that is not precise is due `when`, as `schedule` computes it.
    pub(crate) fn due_of(&self, when: When) -> DueTick {
        let core = self.number();
        // If the engine is another process's, `schedule` returns the error.
        let Some(mut cache) = self.cache() else { return DueTick { tick: Tick::NEVER, core } };
        let now_ns = cache.now_ns();
        DueTick { tick: when.tick(&cache.core, now_ns), core }
    }

    /// Returns when a timer of this engine is due. `None`: never.
    pub(crate) fn instant_of(&self, due: DueTick) -> Option<Instant> {
        let core = self.core().both().find(|core| core.id() == due.core)?;
        core.instant_of(due.tick)
    }

    /// Whether a timer of this engine is precise.
    pub(crate) fn has_precise(&self, handle: &Handle<T>) -> bool {
        handle.as_entry().engine() != self.number()
    }

    /// Counts a timer that [`Handle::postpone`] has moved.
    pub(crate) fn count_reset(&self) {
        if let Some(mut cache) = self.cache() {
            cache.producer.count_reset();
        }
    }
}

// === impl Handle ===

impl<T: Send + 'static> Handle<T> {
    /// Moves the timer if one CAS on its word can: it is pending, and `deadline` is not before its
    /// bucket opens. Calls no foreign code, allocates nothing, and leaves it to the caller to
    /// count the move.
    pub(crate) fn postpone(&mut self, deadline: Tick) -> bool {
        // SAFETY: this is the handle.
        matches!(unsafe { self.as_entry().reset(deadline) }, Reset::Moved)
    }

    /// The same, if the timer's core is the one whose ticks `due` has.
    #[cfg(feature = "keyed")]
    pub(crate) fn postpone_to(&mut self, due: DueTick) -> bool {
        self.as_entry().engine() == due.core && self.postpone(due.tick)
    }

    /// Starts to load the timer's entry into the processor's cache.
    #[cfg(feature = "keyed")]
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self.entry().as_ptr());
    }

    /// When the timer is due, or was.
    #[cfg(feature = "keyed")]
    pub(crate) fn due(&self) -> DueTick {
        DueTick { tick: self.as_entry().word().deadline(), core: self.as_entry().engine() }
    }
}
