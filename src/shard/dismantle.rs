//! Dismantling: a closed shard gives its memory back before the engine's last trace is gone.
//!
//! Each thread that used an engine keeps a part of it, and with that the engine's frame, until it
//! turns to another engine or ends. It must not keep the wheel with it, which may be large. When
//! nobody has the engine any more, the wheel and the depots go.
//!
//! *Who may be inside*: those who file through an engine hold it, so they are not there any more.
//! What is left are handles and doors that find the engine by its number: they file as readers,
//! from before they look a bucket up until they have done with it.
//!
//! *Owner*: who ended the engine.
//!
//! *Orderings*: DISMANTLE. A mark takes the place of each ring in the wheel's table (AcqRel), and
//! then the epoch has the ring. A reader who found the ring before the mark (Acquire) is waited
//! for; one who comes later finds the mark, and his push is refused, as after any stop.
//!
//! *Tested by*: `loom-tests/tests/dismantle.rs`, `tests/freed_early.rs`.

use super::{Agenda, Owner, Shard};

impl<T> Shard<T> {
    /// Gives back the memory of the wheel and what the owner has at hand. Nothing happens to a
    /// shard that is not closed.
    ///
    /// # Safety
    /// Nobody files here any more, or looks at the wheel, but as a reader.
    pub unsafe fn dismantle(&self, owner: &mut Owner<T>) {
        if !owner.closed {
            return;
        }
        // SAFETY: passed on to the caller.
        unsafe { self.wheel.dismantle() };
        owner.agenda = Agenda::new();
        owner.batch.shrink_to_fit();
    }
}
