//! Deadlines in ticks of the engine or of its precise timers, and moves that touch only the timer's
//! word: for doors that move a timer while they hold a lock, when no foreign code may run and no
//! thread may be waited for.

#[cfg(feature = "keyed")]
use std::time::Instant;

use crate::entry::Reset;
use crate::memory::Shared;
use crate::sync::prefetch_to_write;
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
    /// Returns when a timer that is not precise is due `when`, as `schedule` computes it, and the
    /// time by the thread's clock at which that was computed. `None`: the engine is another
    /// process's.
    pub(crate) fn due_of(&self, when: When) -> Option<(DueTick, u64)> {
        let mut cache = self.cache()?;
        let now_ns = cache.now_ns();
        Some((DueTick { tick: when.tick(&cache.core, now_ns), core: self.number() }, now_ns))
    }

    /// Returns the time by the thread's clock, which is never behind the engine's clock.
    pub(crate) fn watch_ns(&self) -> u64 {
        match self.cache() {
            Some(mut cache) => cache.now_ns(),
            None => self.clock().now_ns(),
        }
    }

    /// Whether the engine's clock has reached the time at which a timer is due. `watch_ns` is the
    /// time by the thread's clock: only if that has reached it, the engine's clock is read, because
    /// the thread's may be ahead. Calls no foreign code.
    #[inline]
    pub(crate) fn has_reached(&self, due: DueTick, watch_ns: u64) -> bool {
        let core = match self.core().id() == due.core {
            true => Some(&**self.core()),
            false => self.core().precise.as_deref(),
        };
        let due_ns = core.and_then(|core| core.scale.start_ns(due.tick));
        due_ns.is_some_and(|due_ns| due_ns <= watch_ns && due_ns <= self.clock().now_ns())
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

    /// Counts a timer whose ticket has come without running a task of the user, and which is to be
    /// scheduled again. Not if the engine has stopped: the stop may have returned the ticket, and
    /// then it counts as returned and not as fired.
    #[cold]
    pub(crate) fn count_rearmed(&self) {
        if self.is_stopped() {
            return;
        }
        if let Some(mut cache) = self.cache() {
            cache.producer.count_rearmed();
        }
    }
}

// === impl Handle ===

impl<T: Send + 'static> Handle<T> {
    /// Moves the timer if one CAS on its word can: see
    /// [`Entry::reset`](crate::entry::Entry::reset). Its engine has this `shared`. Calls no foreign
    /// code, allocates nothing, and leaves it to the caller to count the move.
    pub(crate) fn postpone(&mut self, shared: &Shared<T>, deadline: Tick) -> bool {
        let is_crowded = |opens| shared.is_crowded(opens);
        // SAFETY: this is the handle.
        matches!(unsafe { self.as_entry().reset(deadline, is_crowded) }, Reset::Moved)
    }

    /// The same, if the timer's core is `engine`'s own, whose ticks `due` has.
    #[cfg(feature = "keyed")]
    pub(crate) fn postpone_to(&mut self, engine: &Engine<T>, due: DueTick) -> bool {
        let core = engine.core();
        self.as_entry().engine() == core.id() && self.postpone(&core.shared, due.tick)
    }

    /// Starts to load the timer's entry into the processor's cache, to write it.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_to_write(self.entry().as_ptr());
    }

    /// When the timer is due, or was.
    #[cfg(feature = "keyed")]
    pub(crate) fn due(&self) -> DueTick {
        DueTick { tick: self.as_entry().word().deadline(), core: self.as_entry().engine() }
    }
}
