//! A bounded number of places, each for one box.

use std::ptr;

use crate::sync::{AtomicPtr, Hint, Ordering, Padded};

/// Places that one put or take looks at before it gives up: it never takes long.
const LOOK: usize = 8;

/// Places for boxes that threads leave for each other, in no particular order.
pub(super) struct Rack<V> {
    places: Box<[AtomicPtr<V>]>,
    /// Where to look first: near the place where something happened last.
    hint: Padded<Hint>,
}

// SAFETY: the rack owns the boxes in it, and every access to a place is an atomic exchange that
// hands over a whole box.
unsafe impl<V: Send> Send for Rack<V> {}
// SAFETY: as above: a shared rack only ever moves boxes, which `V: Send` permits.
unsafe impl<V: Send> Sync for Rack<V> {}

// === impl Rack ===

impl<V> Rack<V> {
    pub(super) fn new(places: usize) -> Rack<V> {
        Rack {
            places: (0..places).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            hint: Padded(Hint::new(0)),
        }
    }

    /// Leaves `value`, or gives it back where no place near by is free.
    pub(super) fn put(&self, value: Box<V>) -> Result<(), Box<V>> {
        let value = Box::into_raw(value);
        for at in self.near() {
            let (free, place) = (ptr::null_mut(), &self.places[at]);
            // ORDER(DEPOT): Release - pairs with the Acquire in `take`: what the box holds is
            // visible to whoever takes it. Relaxed - a failure says "not here" and no more.
            if place.compare_exchange(free, value, Ordering::Release, Ordering::Relaxed).is_ok() {
                self.aim(at);
                return Ok(());
            }
        }
        // SAFETY: it came from `into_raw` above and no place took it.
        Err(unsafe { Box::from_raw(value) })
    }

    /// Takes what somebody left near by.
    pub(super) fn take(&self) -> Option<Box<V>> {
        for at in self.near() {
            let place = &self.places[at];
            // ORDER(DEPOT): Relaxed - a look that saves the exchange where nothing is.
            if place.load(Ordering::Relaxed).is_null() {
                continue;
            }
            // ORDER(DEPOT): Acquire - pairs with the Release in `put`.
            let value = place.swap(ptr::null_mut(), Ordering::Acquire);
            if !value.is_null() {
                self.aim(at);
                // SAFETY: `put` left it and the swap made it ours alone.
                return Some(unsafe { Box::from_raw(value) });
            }
        }
        self.aim(self.hint().wrapping_add(LOOK));
        None
    }

    /// Takes everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<V>> {
        self.places.iter().filter_map(|place| {
            // ORDER(DEPOT): Acquire - as in `take`.
            let value = place.swap(ptr::null_mut(), Ordering::Acquire);
            // SAFETY: as in `take`.
            (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
        })
    }

    fn near(&self) -> impl Iterator<Item = usize> + use<V> {
        let (start, places) = (self.hint(), self.places.len());
        (0..places.min(LOOK)).map(move |i| start.wrapping_add(i) % places)
    }

    fn hint(&self) -> usize {
        // ORDER: Relaxed - a hint.
        self.hint.load(Ordering::Relaxed)
    }

    fn aim(&self, at: usize) {
        // ORDER: Relaxed - a hint; written only when it changes, because its line is shared.
        if self.hint() != at {
            self.hint.store(at, Ordering::Relaxed);
        }
    }
}

impl<V> Drop for Rack<V> {
    fn drop(&mut self) {
        self.drain().for_each(drop);
    }
}
