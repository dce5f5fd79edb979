//! The agenda: which buckets open when, known to the shard's owner alone.
//!
//! One min-heap per level, because cascading ahead asks for the next bucket *of a level*. A
//! bucket may stand in it for two expirations at once (two rounds of its ring).
//!
//! *Invariants*: what is in the agenda is never judged by what the bucket says of itself; only
//! the very same pair of bucket and expiration may be left out. Such a pair may be on it more
//! than once (a bucket remembers one of its rounds only), and all of them leave it together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::{Place, Tick};

/// Armed buckets by expiration.
#[derive(Debug)]
pub struct Agenda {
    /// As many levels as were ever needed: of those above, nobody asks.
    levels: Vec<BinaryHeap<Reverse<(Tick, u32)>>>,
}

// === impl Agenda ===

impl Agenda {
    /// An agenda with nothing on it.
    pub fn new() -> Agenda {
        Agenda { levels: Vec::new() }
    }

    /// Notes that the bucket opens at the place's expiration. O(log n) in the level's buckets.
    pub fn add(&mut self, place: Place) {
        let level = usize::from(place.level);
        if self.levels.len() < level {
            self.levels.resize_with(level, BinaryHeap::new);
        }
        self.levels[level - 1].push(Reverse((place.expiration, place.slot)));
    }

    /// How many levels may have something on it: those from 1 to this.
    #[inline]
    pub fn levels(&self) -> u8 {
        self.levels.len() as u8
    }

    /// The bucket of `level` that opens next.
    #[inline]
    pub fn first_of(&self, level: u8) -> Option<Place> {
        let Reverse((expiration, slot)) = *self.levels.get(usize::from(level) - 1)?.peek()?;
        Some(Place { level, slot, expiration })
    }

    /// The bucket that opens next; of several at the same time, one of the highest level, so
    /// that what it holds joins the others.
    #[inline]
    pub fn first(&self) -> Option<Place> {
        (1..=self.levels())
            .rev()
            .filter_map(|level| self.first_of(level))
            .min_by_key(|place| place.expiration)
    }

    /// Removes the first bucket, which is `first`.
    #[inline]
    pub fn remove(&mut self, first: Place) {
        debug_assert_eq!(self.first_of(first.level), Some(first), "buckets leave in order");
        // Left for later, each copy would open the bucket again, and each opening of a bucket
        // that holds several rounds makes new copies: more in every round, without end.
        let copy = Reverse((first.expiration, first.slot));
        let level = &mut self.levels[usize::from(first.level) - 1];
        while level.peek() == Some(&copy) {
            level.pop();
        }
    }

    /// Crosses everything off.
    pub fn clear(&mut self) {
        self.levels.iter_mut().for_each(BinaryHeap::clear);
    }

    /// Everything on the agenda, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        self.levels.iter().zip(1..).flat_map(|(heap, level)| {
            heap.iter().map(move |&Reverse((expiration, slot))| Place { level, slot, expiration })
        })
    }
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pop_until(agenda: &mut Agenda, now: u64) -> Option<Place> {
        let first = agenda.first().filter(|place| place.expiration <= Tick::new(now))?;
        agenda.remove(first);
        Some(first)
    }

    fn place(level: u8, slot: u32, at: u64) -> Place {
        Place { level, slot, expiration: Tick::new(at) }
    }

    #[test]
    fn buckets_come_in_order_of_expiration_and_from_above_when_equal() {
        let mut agenda = Agenda::new();
        for place in [place(1, 5, 5), place(3, 0, 8), place(1, 0, 8), place(2, 1, 4)] {
            agenda.add(place);
        }
        assert_eq!(agenda.first_of(2), Some(place(2, 1, 4)));
        assert_eq!(pop_until(&mut agenda, 3), None);
        let order: Vec<Place> = std::iter::from_fn(|| pop_until(&mut agenda, 8)).collect();
        assert_eq!(order, [place(2, 1, 4), place(1, 5, 5), place(3, 0, 8), place(1, 0, 8)]);
        assert_eq!(agenda.first(), None);
    }

    #[test]
    fn copies_of_one_opening_leave_together() {
        let mut agenda = Agenda::new();
        for place in [place(1, 5, 5), place(1, 5, 69), place(1, 5, 5), place(1, 6, 5)] {
            agenda.add(place);
        }
        let order: Vec<Place> = std::iter::from_fn(|| pop_until(&mut agenda, 99)).collect();
        assert_eq!(order, [place(1, 5, 5), place(1, 6, 5), place(1, 5, 69)]);
    }

    #[test]
    fn what_is_crossed_off_does_not_come() {
        let mut agenda = Agenda::new();
        for place in [place(1, 5, 5), place(2, 1, 8)] {
            agenda.add(place);
        }
        agenda.clear();
        assert_eq!((agenda.first(), agenda.iter().count()), (None, 0));
        agenda.add(place(1, 6, 6));
        assert_eq!(agenda.first(), Some(place(1, 6, 6)));
    }
}
