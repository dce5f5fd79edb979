//! A bounded number of places, each for one box.
//!
//! *Invariant*: as long as one thread at a time puts and takes, its boxes lie next to each other: a
//! put looks upwards from the place of the last operation, a take downwards. So a thread that
//! leaves many boxes finds a place for each, and finds each again.
//!
//! How many boxes are needed is seen in *periods*: those that nobody took in the last one, though
//! they were there throughout, are too many.

use std::ptr;

use crate::sync::{AtomicPtr, CachePadded, Counter, Hint, Ordering};

/// Places that one put or take looks at before it gives up: this bounds its cost.
const LOOK: usize = 8;

/// Places for boxes that threads leave for each other, in no particular order.
pub(super) struct Slots<V> {
    places: Box<[AtomicPtr<V>]>,
    state: CachePadded<State>,
}

struct State {
    /// Where to look first: the place of the last put or take.
    hint: Hint,
    /// How many boxes there are. Below zero for a moment if a box is taken before it is counted.
    held: Counter,
    /// The fewest that there were in this period.
    least: Counter,
    /// How many there are too many.
    surplus: Counter,
}

// SAFETY: `Slots` owns the boxes in it, and a box is put or taken only by an atomic CAS or swap of
// its place, which hands over the whole box.
unsafe impl<V: Send> Send for Slots<V> {}
// SAFETY: a shared `Slots` only moves boxes, which `V: Send` permits.
unsafe impl<V: Send> Sync for Slots<V> {}

// === impl Slots ===

impl<V> Slots<V> {
    pub(super) fn new(places: usize) -> Slots<V> {
        Slots {
            places: (0..places).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            state: CachePadded::new(State {
                hint: Hint::new(0),
                held: Counter::new(0),
                least: Counter::new(0),
                surplus: Counter::new(0),
            }),
        }
    }

    /// How many boxes there are, as far as they are counted.
    pub(super) fn len(&self) -> usize {
        // ORDER: Relaxed - the number only says whether to put or to take.
        (self.state.held.load(Ordering::Relaxed) as i64).max(0) as usize
    }

    /// Whether each place has a box, as far as they are counted.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.places.len()
    }

    /// Leaves `value`, or returns it if no place nearby is free.
    pub(super) fn put(&self, value: Box<V>) -> Result<(), Box<V>> {
        let value = Box::into_raw(value);
        for at in self.upwards() {
            let (free, place) = (ptr::null_mut(), &self.places[at]);
            // ORDER(DEPOT): Release - pairs with the Acquire in `empty`: the contents of the box
            // are visible to the thread that takes it. Relaxed - after a failure nothing is read.
            if place.compare_exchange(free, value, Ordering::Release, Ordering::Relaxed).is_ok() {
                self.aim(at);
                // ORDER: Relaxed - the number only says whether to put or to take.
                self.state.held.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
        }
        // SAFETY: it came from `into_raw` above and no place took it.
        Err(unsafe { Box::from_raw(value) })
    }

    /// Takes a box from a place nearby, if there is one.
    pub(super) fn take(&self) -> Option<Box<V>> {
        for at in self.downwards() {
            let place = &self.places[at];
            // ORDER(DEPOT): Relaxed - a check that saves the swap if the place is empty.
            if place.load(Ordering::Relaxed).is_null() {
                continue;
            }
            if let Some(value) = self.empty(place) {
                self.aim(at);
                return Some(value);
            }
        }
        if let Some(last) = self.downwards().last() {
            self.aim(last);
        }
        None
    }

    /// Ends a period: boxes that nobody has taken in it are too many.
    pub(super) fn end_period(&self) {
        let State { least, surplus, .. } = &*self.state;
        // ORDER: Relaxed - estimates, here and below.
        surplus.store(least.load(Ordering::Relaxed), Ordering::Relaxed);
        // ORDER: Relaxed - an estimate.
        least.store(self.len() as u64, Ordering::Relaxed);
    }

    /// Takes a box if there are too many.
    pub(super) fn take_surplus(&self) -> Option<Box<V>> {
        let surplus = &self.state.surplus;
        // ORDER: Relaxed - an estimate; two that take at once take one more.
        let left = surplus.load(Ordering::Relaxed).checked_sub(1)?;
        // ORDER: Relaxed - an estimate.
        surplus.store(left, Ordering::Relaxed);
        self.take()
    }

    /// Takes everything that is there now, as far as it is counted.
    pub(super) fn drain(&self) -> impl Iterator<Item = Box<V>> {
        let held = self.places.iter().take_while(|_| self.len() > 0);
        held.filter_map(|place| self.empty(place))
    }

    fn empty(&self, place: &AtomicPtr<V>) -> Option<Box<V>> {
        // ORDER(DEPOT): Acquire - pairs with the Release in `put`.
        let value = place.swap(ptr::null_mut(), Ordering::Acquire);
        if value.is_null() {
            return None;
        }
        let State { held, least, .. } = &*self.state;
        // ORDER: Relaxed - estimates.
        let left = held.fetch_sub(1, Ordering::Relaxed).wrapping_sub(1);
        if (left as i64) < least.load(Ordering::Relaxed) as i64 {
            least.store(self.len() as u64, Ordering::Relaxed);
        }
        // SAFETY: `put` left it and the swap made it ours alone.
        Some(unsafe { Box::from_raw(value) })
    }

    /// Where to look for a free place.
    fn upwards(&self) -> impl Iterator<Item = usize> + use<V> {
        let (start, places) = (self.hint(), self.places.len());
        (0..places.min(LOOK)).map(move |i| (start + i) % places)
    }

    /// Where to look for a box.
    fn downwards(&self) -> impl Iterator<Item = usize> + use<V> {
        let (start, places) = (self.hint(), self.places.len());
        (0..places.min(LOOK)).map(move |i| (start + places - i) % places)
    }

    fn hint(&self) -> usize {
        // ORDER: Relaxed - a hint.
        self.state.hint.load(Ordering::Relaxed)
    }

    fn aim(&self, at: usize) {
        // ORDER: Relaxed - a hint; written only when it changes, because its line is shared.
        if self.hint() != at {
            self.state.hint.store(at, Ordering::Relaxed);
        }
    }
}

impl<V> Drop for Slots<V> {
    fn drop(&mut self) {
        self.drain().for_each(drop);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn one_thread_finds_places_and_boxes_however_many_it_leaves_and_takes() {
        let places = 5 * LOOK;
        let slots = Slots::new(places);
        for held in [1, LOOK + 1, 3 * LOOK, places - 1, places] {
            for _ in 0..3 {
                (0..held).for_each(|i| assert_eq!(slots.put(Box::new(i)), Ok(())));
                let taken: Vec<usize> = (0..held).map(|_| *slots.take().unwrap()).collect();
                assert!(taken.iter().rev().copied().eq(0..held), "{taken:?}");
            }
            assert_eq!(slots.take(), None);
        }
    }

    #[test]
    fn boxes_are_too_many_if_nobody_has_taken_them_in_a_whole_period() {
        let slots = Slots::new(20);
        let surplus = || std::iter::from_fn(|| slots.take_surplus()).count();
        (0..10).for_each(|i| slots.put(Box::new(i)).unwrap());
        slots.end_period();
        assert_eq!(surplus(), 0, "they came in this one");
        for _ in 0..3 {
            let taken: Vec<_> = (0..7).map(|_| slots.take().unwrap()).collect();
            taken.into_iter().for_each(|taken| slots.put(taken).unwrap());
        }
        slots.end_period();
        assert_eq!((surplus(), slots.len()), (3, 7));
        slots.end_period();
        assert_eq!((surplus(), slots.len()), (7, 0), "nobody has needed any since");
        slots.end_period();
        assert_eq!(surplus(), 0);
    }

    #[test]
    fn a_few_are_left_and_taken_on_top_of_many() {
        let slots = Slots::new(5 * LOOK);
        (0..2 * LOOK).for_each(|i| slots.put(Box::new(i)).unwrap());
        for few in [1, LOOK, 2 * LOOK] {
            (0..few).for_each(|i| slots.put(Box::new(i)).unwrap());
            (0..few).for_each(|_| drop(slots.take().unwrap()));
        }
        (0..2 * LOOK).for_each(|_| drop(slots.take().unwrap()));
        assert_eq!(slots.take(), None);
    }
}
