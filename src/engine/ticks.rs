//! Deadlines in ticks, and moves that touch only the timer's word: for doors that move a timer
//! while they hold a lock, when no foreign code may run and no thread may be waited for.

#[cfg(feature = "keyed")]
use std::time::Instant;

use crate::entry::Reset;
#[cfg(feature = "keyed")]
use crate::sync::prefetch;
use crate::time::Tick;

use super::Handle;
#[cfg(feature = "keyed")]
use super::{Engine, When};

// === impl Engine ===

#[cfg(feature = "keyed")]
impl<T: Send + 'static> Engine<T> {
    /// Returns the tick of a timer that is due `when`, as `schedule` computes it.
    pub(crate) fn tick_of(&self, when: When) -> Tick {
        // If the engine is another process's, `schedule` returns the error.
        let Some(mut cache) = self.cache() else { return Tick::NEVER };
        let now_ns = cache.now_ns();
        when.tick(&cache.core, now_ns)
    }

    /// Returns when a tick begins. `None`: never.
    pub(crate) fn instant_of(&self, tick: Tick) -> Option<Instant> {
        self.core().instant_of(tick)
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

    /// Starts to load the timer's entry into the processor's cache.
    #[cfg(feature = "keyed")]
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self.entry().as_ptr());
    }

    /// The tick at which the timer is due, or was.
    #[cfg(feature = "keyed")]
    pub(crate) fn tick(&self) -> Tick {
        self.as_entry().word().deadline()
    }
}
