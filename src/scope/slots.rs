//! The ends of a scope's timers (handles, or what waits for their tasks), each in a slot and under
//! a key that is never used again.
//!
//! *Owner*: one scope, and whichever thread has it.
//!
//! *Invariants*
//! - Timers are numbered in the order in which they come, and a key is its timer's slot and number.
//!   So a key finds its own timer or nothing, also after the slot has got another timer.
//! - Nobody tells a scope that a timer is over. When all slots are taken, the slots of timers that
//!   are over become free. The table grows only if fewer than half of its slots were freed
//!   in this way. So at least half a table of timers come between two such looks, and there are at
//!   most four slots for each of the most timers that were ever pending at once (and at least
//!   [`FEWEST`]).
//!
//! *Tested by*: `tests/oracles/scope.rs`, `tests/memory/engine.rs`, and the unit test below.

use std::mem;

use crate::engine::{Handle, State, Waitable};
use crate::wait::Stage;

/// The key of a timer within its [`Scope`](crate::scope::Scope): a small number that is never used
/// again. It is valid in that scope only; in another one, it may find another timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    number: u64,
    slot: usize,
}

/// The caller's end of a timer.
pub(super) trait CallersEnd {
    /// Whether it is certain that nothing is left that a scope does with it.
    fn is_over(&self) -> bool;
}

/// The table of slots.
pub(super) struct Slots<E> {
    slots: Vec<Slot<E>>,
    /// The slot that became free last, or [`NONE`].
    free: usize,
    /// The number of the next timer.
    next_number: u64,
}

enum Slot<E> {
    Taken {
        number: u64,
        end: E,
    },
    /// `next` is the slot that became free before this one.
    Free {
        next: usize,
    },
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Slot<Handle>>() == 2 * size_of::<u64>(), "as small as its parts");

const NONE: usize = usize::MAX;

/// How many slots a table begins with, when it gets its first timer.
const FEWEST: usize = 4;

// === impl Slots ===

impl<E: CallersEnd> Slots<E> {
    pub(super) const fn new() -> Slots<E> {
        Slots { slots: Vec::new(), free: NONE, next_number: 0 }
    }

    /// Takes in a timer's end. Amortised O(1).
    #[inline]
    pub(super) fn insert(&mut self, end: E) -> Key {
        let key = self.next_key();
        self.next_number += 1;
        let taken = Slot::Taken { number: key.number, end };
        match self.slots.get_mut(key.slot) {
            Some(place) => {
                let Slot::Free { next } = *place else { unreachable!("a free slot is free") };
                self.free = next;
                *place = taken;
            }
            None => self.slots.push(taken),
        }
        key
    }

    /// The key of the timer that is taken in next, for which there is room then.
    #[inline]
    pub(super) fn next_key(&mut self) -> Key {
        if self.free == NONE && self.slots.len() == self.slots.capacity() {
            self.make_room();
        }
        let slot = if self.free == NONE { self.slots.len() } else { self.free };
        Key { number: self.next_number, slot }
    }

    /// Takes the end under `key` out.
    #[inline]
    pub(super) fn remove(&mut self, key: Key) -> Option<E> {
        self.get(key)?;
        let slot = mem::replace(&mut self.slots[key.slot], Slot::Free { next: self.free });
        self.free = key.slot;
        slot.into_end()
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&E> {
        match self.slots.get(key.slot)? {
            Slot::Taken { number, end } if *number == key.number => Some(end),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut E> {
        match self.slots.get_mut(key.slot)? {
            Slot::Taken { number, end } if *number == key.number => Some(end),
            _ => None,
        }
    }

    /// All ends, also of timers that are over.
    pub(super) fn iter(&self) -> impl Iterator<Item = &E> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Taken { end, .. } => Some(end),
            Slot::Free { .. } => None,
        })
    }

    /// All ends, also of timers that are over.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Taken { end, .. } => Some(end),
            Slot::Free { .. } => None,
        })
    }

    /// Takes all ends out, and keeps the memory. An end that the iterator still has when it is
    /// dropped detaches its timer.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = E> {
        self.free = NONE;
        self.slots.drain(..).filter_map(Slot::into_end)
    }

    /// Frees the slots of timers that are over, and returns how many there were.
    pub(super) fn let_go(&mut self) -> usize {
        let mut freed = 0;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if matches!(slot, Slot::Taken { end, .. } if end.is_over()) {
                *slot = Slot::Free { next: self.free };
                self.free = index;
                freed += 1;
            }
        }
        freed
    }

    /// Frees the slots of timers that are over, and grows if that is not enough. Called when all
    /// slots are taken.
    #[cold]
    fn make_room(&mut self) {
        let freed = self.let_go();
        let slots = self.slots.len();
        if 2 * freed < slots || slots == 0 {
            self.slots.reserve_exact(slots.max(FEWEST));
        }
    }
}

// === impl Slot ===

impl<E> Slot<E> {
    #[inline]
    fn into_end(self) -> Option<E> {
        match self {
            Slot::Taken { end, .. } => Some(end),
            Slot::Free { .. } => None,
        }
    }
}

// === impl CallersEnd ===

impl<T: Send + 'static> CallersEnd for Handle<T> {
    /// Only of a timer that has fired is it certain that its handle has no payload.
    #[inline]
    fn is_over(&self) -> bool {
        self.state() == State::Fired
    }
}

impl<V: Send + 'static, T: Send + 'static> CallersEnd for Waitable<V, T> {
    fn is_over(&self) -> bool {
        matches!(self.stage(), Stage::Finished | Stage::Cancelled)
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
