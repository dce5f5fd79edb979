//! Deadlines in ticks, and moves that touch only the timer's word. They are for higher-level APIs
//! that move a timer under a lock, when no foreign code may run and no thread may be waited for.
//! These are crates of their own, so this is a part of the door to them (`internal`).

use std::time::Instant;

use crate::memory::Count;
use crate::sync::prefetch_to_write;
use crate::time::Tick;

use super::{Engine, Handle, When};

/// What an API that keeps timers of an engine under locks asks of it.
pub trait EngineTicks<T: Send + 'static> {
    /// Returns when a timer is due `when`, as `schedule` computes it, and the time by the thread's
    /// clock at which that was computed. `None`: the engine is another process's.
    fn due_of(&self, when: When) -> Option<(Tick, u64)>;

    /// Returns the time by the thread's clock, which is never behind the engine's clock.
    fn thread_now_ns(&self) -> u64;

    /// Whether the engine's clock has reached the time at which a timer is due. `thread_now_ns` is
    /// the time by the thread's clock: only if that has reached it, the engine's clock is read,
    /// because the thread's may be ahead. Calls no foreign code.
    fn has_reached(&self, due: Tick, thread_now_ns: u64) -> bool;

    /// Returns when a timer of this engine is due. `None`: never.
    fn instant_of(&self, due: Tick) -> Option<Instant>;

    /// Moves a timer of this engine if one CAS can, and does not count that. `now_ns` is the
    /// time by the thread's clock.
    fn reset_in_place(&self, handle: &mut Handle<T>, tick: Tick, now_ns: u64) -> bool;

    /// Counts a timer that `reset_in_place` has moved.
    fn count_reset(&self);

    /// Counts a timer whose ticket has come without running a task of the user, and which is to be
    /// scheduled again. Not if the engine has stopped: the stop may have returned the ticket, and
    /// then it counts as returned and not as fired.
    fn count_rearmed(&self);
}

/// What such an API asks of a handle.
pub trait HandleTicks {
    /// When the timer is due, or was.
    fn due(&self) -> Tick;

    /// Starts to load the timer's entry into the processor's cache, to write it.
    fn prefetch(&self);
}

// === impl EngineTicks ===

impl<T: Send + 'static> EngineTicks<T> for Engine<T> {
    fn due_of(&self, when: When) -> Option<(Tick, u64)> {
        let mut cache = self.cache()?;
        let now_ns = cache.now_ns();
        Some((when.tick(&cache.core, now_ns), now_ns))
    }

    fn thread_now_ns(&self) -> u64 {
        match self.cache() {
            Some(mut cache) => cache.now_ns(),
            None => self.clock().now_ns(),
        }
    }

    #[inline]
    fn has_reached(&self, due: Tick, thread_now_ns: u64) -> bool {
        let due_ns = self.core().scale.start_ns(due);
        due_ns.is_some_and(|due_ns| due_ns <= thread_now_ns && due_ns <= self.clock().now_ns())
    }

    fn instant_of(&self, due: Tick) -> Option<Instant> {
        self.core().instant_of(due)
    }

    fn reset_in_place(&self, handle: &mut Handle<T>, tick: Tick, now_ns: u64) -> bool {
        handle.reset_in_place(tick, self.core().scale.floor(now_ns))
    }

    fn count_reset(&self) {
        if let Some(mut cache) = self.cache() {
            cache.producer.count(Count::Reset);
        }
    }

    #[cold]
    fn count_rearmed(&self) {
        if self.is_stopped() {
            return;
        }
        if let Some(mut cache) = self.cache() {
            cache.producer.count(Count::Rearmed);
        }
    }
}

// === impl HandleTicks ===

impl<T: Send + 'static> HandleTicks for Handle<T> {
    fn due(&self) -> Tick {
        self.as_entry().word().deadline()
    }

    #[inline]
    fn prefetch(&self) {
        prefetch_to_write(self.entry().addr().get());
    }
}
