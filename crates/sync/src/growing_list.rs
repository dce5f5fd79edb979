//! A list that only grows.
//!
//! *Owner*: any thread adds and reads.
//!
//! *Invariants*: a link that was added never changes and lives as long as the list, so a reader
//! needs no guard, and nobody meets an outdated link.
//!
//! *Orderings*: BUCKET-READ (the trays of a shard), COUNTERS (the sets of an engine).

use ::std::iter;
use ::std::ptr;

use super::{AtomicPtr, Ordering};

/// A list that only grows, the last addition first.
pub struct GrowingList<V> {
    first: AtomicPtr<Link<V>>,
}

struct Link<V> {
    value: V,
    next: *mut Link<V>,
}

// SAFETY: the list owns its values, and drops them where it is dropped.
unsafe impl<V: Send> Send for GrowingList<V> {}
// SAFETY: links never change once they are published; threads share the values, and a thread may
// add one that is dropped elsewhere.
unsafe impl<V: Send + Sync> Sync for GrowingList<V> {}

// === impl GrowingList ===

impl<V> GrowingList<V> {
    /// Adds a value. O(1).
    pub fn add(&self, value: V) -> &V {
        let link = Box::into_raw(Box::new(Link { value, next: ptr::null_mut() }));
        let push = |first| {
            // SAFETY: nobody else has the link before the CAS.
            unsafe { (*link).next = first };
            Some(link)
        };
        // ORDER(BUCKET-READ, COUNTERS): Release - pairs with the Acquire in `iter`: publishes the
        // link. Each CAS continues the release sequences of those before it, so who finds this link
        // finds the others too. Relaxed - the first link is not followed here.
        let _ = self.first.fetch_update(Ordering::Release, Ordering::Relaxed, push);
        // SAFETY: it lives as long as the list.
        unsafe { &(*link).value }
    }

    /// The values that were added before.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        // ORDER(BUCKET-READ, COUNTERS): Acquire - pairs with the Release in `add`.
        let mut link = self.first.load(Ordering::Acquire);
        iter::from_fn(move || {
            // SAFETY: a published link is never freed or changed while the list lives.
            let this = unsafe { link.as_ref() }?;
            link = this.next;
            Some(&this.value)
        })
    }
}

impl<V> Default for GrowingList<V> {
    fn default() -> GrowingList<V> {
        GrowingList { first: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<V> Drop for GrowingList<V> {
    fn drop(&mut self) {
        // ORDER: Relaxed - no other thread is left.
        let mut link = self.first.load(Ordering::Relaxed);
        while !link.is_null() {
            // SAFETY: every link came from a box, and the list is going.
            let this = unsafe { Box::from_raw(link) };
            link = this.next;
        }
    }
}

debug! { impl[V] GrowingList[V] {} }
