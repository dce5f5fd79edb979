//! Deadlines in ticks, and moves that touch only the timer's word. They are for higher-level APIs
//! that move a timer under a lock, when no foreign code may run and no thread may be waited for.

use std::time::Instant;

use crate::memory::Count;
use crate::time::Tick;

use super::{Engine, Handle, When};

// === impl Engine ===

impl<T: Send + 'static> Engine<T> {
    /// Returns when a timer is due `when`, as `schedule` computes it, and the time by the thread's
    /// clock at which that was computed. `None`: the engine is another process's.
    pub(crate) fn due_of(&self, when: When) -> Option<(Tick, u64)> {
        let mut cache = self.cache()?;
        let now_ns = cache.now_ns();
        Some((when.tick(&cache.core, now_ns), now_ns))
    }

    /// Returns the time by the thread's clock, which is never behind the engine's clock.
    pub(crate) fn thread_now_ns(&self) -> u64 {
        match self.cache() {
            Some(mut cache) => cache.now_ns(),
            None => self.clock().now_ns(),
        }
    }

    /// Whether the engine's clock has reached the time at which a timer is due. `thread_now_ns` is
    /// the time by the thread's clock: only if that has reached it, the engine's clock is read,
    /// because the thread's may be ahead. Calls no foreign code.
    #[inline]
    pub(crate) fn has_reached(&self, due: Tick, thread_now_ns: u64) -> bool {
        let due_ns = self.core().scale.start_ns(due);
        due_ns.is_some_and(|due_ns| due_ns <= thread_now_ns && due_ns <= self.clock().now_ns())
    }

    /// Returns when a timer of this engine is due. `None`: never.
    pub(crate) fn instant_of(&self, due: Tick) -> Option<Instant> {
        self.core().instant_of(due)
    }

    /// Moves a timer of this engine if one CAS can: see [`Handle::reset_in_place`]. `now_ns` is the
    /// time by the thread's clock.
    pub(crate) fn reset_in_place(&self, handle: &mut Handle<T>, tick: Tick, now_ns: u64) -> bool {
        handle.reset_in_place(tick, self.core().scale.floor(now_ns))
    }

    /// Counts a timer that [`Handle::reset_in_place`] has moved.
    pub(crate) fn count_reset(&self) {
        if let Some(mut cache) = self.cache() {
            cache.producer.count(Count::Reset);
        }
    }

    /// Counts a timer whose ticket has come without running a task of the user, and which is to be
    /// scheduled again. Not if the engine has stopped: the stop may have returned the ticket, and
    /// then it counts as returned and not as fired.
    #[cold]
    pub(crate) fn count_rearmed(&self) {
        if self.is_stopped() {
            return;
        }
        if let Some(mut cache) = self.cache() {
            cache.producer.count(Count::Rearmed);
        }
    }
}
