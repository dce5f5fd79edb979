//! Deadlines in ticks, and moves that touch nothing but the timer's word: for doors that move a
//! timer while they hold a lock, when nothing of the user's may run and nobody may be waited for.

use std::time::Instant;

use crate::entry::Reset;
use crate::time::Tick;

use super::thread_cache::{self, ThreadCache};
use super::{Engine, Handle, When};

// === impl Engine ===

impl<T: Send + 'static> Engine<T> {
    /// The tick of a timer that is due `when`, as `schedule` computes it.
    pub(crate) fn tick_of(&self, when: When) -> Tick {
        // Where the engine is another process's, `schedule` says so.
        let Some(mut cache) = thread_cache::of(self.core()) else { return Tick::NEVER };
        let ThreadCache { core, watch, .. } = &mut *cache;
        let now_ns = watch.now_ns(&core.clock);
        when.tick(core, now_ns)
    }

    /// When a tick begins; `None`: never.
    pub(crate) fn instant_of(&self, tick: Tick) -> Option<Instant> {
        self.core().instant_of(tick)
    }

    /// Counts a timer that [`Handle::postpone`] has moved.
    pub(crate) fn count_reset(&self) {
        if let Some(mut cache) = thread_cache::of(self.core()) {
            cache.producer.count_reset();
        }
    }
}

// === impl Handle ===

impl<T: Send + 'static> Handle<T> {
    /// Moves the timer if one exchange on its word does that: it is pending, and `deadline` is not
    /// before its bucket opens. Calls nothing, allocates nothing, and leaves it to the caller to
    /// [count](Engine::count_reset).
    pub(crate) fn postpone(&mut self, deadline: Tick) -> bool {
        // SAFETY: this is the handle.
        matches!(unsafe { self.as_entry().reset(deadline) }, Reset::Moved)
    }

    /// When the timer is due, or was.
    pub(crate) fn tick(&self) -> Tick {
        self.as_entry().word().deadline()
    }
}
