//! The handles of a scope's timers, each in a slot and under a key that is never used again.
//!
//! *Owner*: one scope, and whichever thread has it.
//!
//! *Invariants*
//! - Timers are numbered in the order in which they come, and a key is its timer's slot and number.
//!   So a key finds its own timer or nothing, also after the slot has got another timer.
//! - Nobody tells a scope that a timer has fired. When all slots are taken, the slots of timers
//!   that have fired become free. The table grows only if fewer than half of its slots were freed
//!   in this way. So at least half a table of timers come between two such looks, and there are at
//!   most four slots for each of the most timers that were ever pending at once (and at least
//!   [`FEWEST`]).
//!
//! *Tested by*: `tests/scope_oracle.rs`, `tests/alloc.rs`, and the unit test below.

use std::mem;

use crate::engine::{Handle, State};

/// The key of a timer within its [`Scope`](crate::scope::Scope): a small number that is never used
/// again. It is valid in that scope only; in another one, it may find another timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    number: u64,
    slot: usize,
}

/// The table of slots.
pub(super) struct Slots<T: Send + 'static> {
    slots: Vec<Slot<T>>,
    /// The slot that became free last, or [`NONE`].
    free: usize,
    /// The number of the next timer.
    next_number: u64,
}

enum Slot<T: Send + 'static> {
    Taken {
        number: u64,
        handle: Handle<T>,
    },
    /// `next` is the slot that became free before this one.
    Free {
        next: usize,
    },
}

const _: () = assert!(size_of::<Slot<u64>>() == 2 * size_of::<u64>(), "as small as its parts");

const NONE: usize = usize::MAX;

/// How many slots a table begins with, when it gets its first timer.
const FEWEST: usize = 4;

// === impl Slots ===

impl<T: Send + 'static> Slots<T> {
    pub(super) const fn new() -> Slots<T> {
        Slots { slots: Vec::new(), free: NONE, next_number: 0 }
    }

    /// Takes in a handle. Amortised O(1).
    #[inline]
    pub(super) fn insert(&mut self, handle: Handle<T>) -> Key {
        if self.free == NONE && self.slots.len() == self.slots.capacity() {
            self.make_room();
        }
        let number = self.next_number;
        self.next_number += 1;
        let taken = Slot::Taken { number, handle };
        let slot = self.free;
        match self.slots.get_mut(slot) {
            Some(place) => {
                let Slot::Free { next } = *place else { unreachable!("a free slot is free") };
                self.free = next;
                *place = taken;
                Key { number, slot }
            }
            None => {
                self.slots.push(taken);
                Key { number, slot: self.slots.len() - 1 }
            }
        }
    }

    /// Takes the handle under `key` out.
    #[inline]
    pub(super) fn remove(&mut self, key: Key) -> Option<Handle<T>> {
        self.get(key)?;
        let slot = mem::replace(&mut self.slots[key.slot], Slot::Free { next: self.free });
        self.free = key.slot;
        slot.into_handle()
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&Handle<T>> {
        match self.slots.get(key.slot)? {
            Slot::Taken { number, handle } if *number == key.number => Some(handle),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Handle<T>> {
        match self.slots.get_mut(key.slot)? {
            Slot::Taken { number, handle } if *number == key.number => Some(handle),
            _ => None,
        }
    }

    /// All handles, also of timers that are over.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Handle<T>> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Taken { handle, .. } => Some(handle),
            Slot::Free { .. } => None,
        })
    }

    /// Takes all handles out, and keeps the memory. A handle that the iterator still has when it is
    /// dropped detaches its timer.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Handle<T>> {
        self.free = NONE;
        self.slots.drain(..).filter_map(Slot::into_handle)
    }

    /// Frees the slots of timers that have fired, and grows if that is not enough. Called when all
    /// slots are taken.
    #[cold]
    fn make_room(&mut self) {
        let mut freed = 0;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            // Only of a timer that has fired is it certain that its handle has no payload.
            if matches!(slot, Slot::Taken { handle, .. } if handle.state() == State::Fired) {
                *slot = Slot::Free { next: self.free };
                self.free = index;
                freed += 1;
            }
        }
        let slots = self.slots.len();
        if 2 * freed < slots || slots == 0 {
            self.slots.reserve_exact(slots.max(FEWEST));
        }
    }
}

// === impl Slot ===

impl<T: Send + 'static> Slot<T> {
    #[inline]
    fn into_handle(self) -> Option<Handle<T>> {
        match self {
            Slot::Taken { handle, .. } => Some(handle),
            Slot::Free { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Engine, ManualClock};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_table_has_at_most_four_slots_per_timer_that_was_pending_at_once() {
        for pending in [1, 2, 3, 5, 8, 13, 100] {
            let engine = Engine::builder().manual_clock(&ManualClock::new()).build().unwrap();
            let mut slots = Slots::new();
            for number in 0..100 * pending {
                // Each fires when as many others were scheduled after it.
                slots.insert(engine.schedule(MS * pending, || ()).unwrap());
                engine.advance(MS).unwrap();
                // Some are cancelled meanwhile, and some of these at once.
                if number % 7 < 2 {
                    let key = Key { number: (number / 2).into(), slot: number as usize % 10 };
                    slots.remove(key).map(Handle::cancel);
                }
                let most = FEWEST.max(4 * pending as usize);
                assert!(slots.slots.capacity() <= most, "{} slots", slots.slots.capacity());
            }
            slots.drain().for_each(drop);
        }
    }
}
