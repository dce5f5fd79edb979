//! The hands of a shard's owner, as readers find them: they hold the entries that were taken out of
//! the buckets and are still pending.
//!
//! *Owner*: the shard's owner fills them; any thread reads them, under a guard.
//!
//! *Invariants*: a hand lives as long as the shard and is reused when it is empty. There are two
//! wide hands and one for each bucket that was ever parked at a time, and at most as many narrow
//! ones as rounds were ever at hand at a time. An entry goes from its bucket into a wide hand, from
//! there perhaps into a narrow one, and never back. So a reader that visits them in this order
//! meets every entry that stays pending and is not re-filed.
//!
//! *Orderings*: BUCKET-READ.

use std::iter;
use std::ptr;

use crate::entry::Entry;
use crate::inbox::Hand;
use crate::sync::{Arc, AtomicPtr, Ordering};

/// All hands of a shard.
pub(super) struct Hands<T> {
    /// For the entries of a bucket: one is due, one is cascaded eagerly, the others are parked.
    wide: GrowingList<T>,
    /// For the rounds at hand.
    narrow: GrowingList<T>,
}

/// A list that only grows.
struct GrowingList<T> {
    first: AtomicPtr<Link<T>>,
}

struct Link<T> {
    hand: Arc<Hand<Entry<T>>>,
    next: *mut Link<T>,
}

// SAFETY: links are published once, never change afterwards, and live as long as the list; the
// hands are lists of entries, which may be sent and shared where payloads may be sent.
unsafe impl<T: Send> Send for GrowingList<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for GrowingList<T> {}

// === impl Hands ===

impl<T> Hands<T> {
    pub(super) fn new() -> Hands<T> {
        Hands { wide: GrowingList::new(), narrow: GrowingList::new() }
    }

    /// Owner only: makes another wide hand.
    pub(super) fn add_wide(&self) -> Arc<Hand<Entry<T>>> {
        self.wide.add(Arc::new(Hand::wide()))
    }

    /// Owner only: makes another narrow hand.
    pub(super) fn add(&self) -> Arc<Hand<Entry<T>>> {
        self.narrow.add(Arc::new(Hand::narrow()))
    }

    /// The hands of rounds that were ever at hand.
    pub(super) fn rounds(&self) -> impl Iterator<Item = &Arc<Hand<Entry<T>>>> {
        self.narrow.iter()
    }

    /// The wide hands, then the narrow ones, whose list is read after the wide ones were visited.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Hand<Entry<T>>> {
        let narrow = iter::once_with(|| self.narrow.iter()).flatten();
        self.wide.iter().chain(narrow).map(|hand| &**hand)
    }
}

// === impl GrowingList ===

impl<T> GrowingList<T> {
    fn new() -> GrowingList<T> {
        GrowingList { first: AtomicPtr::new(ptr::null_mut()) }
    }

    fn add(&self, hand: Arc<Hand<Entry<T>>>) -> Arc<Hand<Entry<T>>> {
        // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller. Release - pairs with the
        // Acquire in `iter`: publishes the hand. A reader that finds a bucket empty, because it was
        // taken into a hand, finds that hand.
        let next = self.first.load(Ordering::Relaxed);
        let link = Box::into_raw(Box::new(Link { hand: hand.clone(), next }));
        self.first.store(link, Ordering::Release);
        hand
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Hand<Entry<T>>>> {
        // ORDER(BUCKET-READ): Acquire - pairs with the Release in `add`.
        let mut link = self.first.load(Ordering::Acquire);
        iter::from_fn(move || {
            // SAFETY: a published link is never freed or changed while the list lives.
            let this = unsafe { link.as_ref() }?;
            link = this.next;
            Some(&this.hand)
        })
    }
}

impl<T> Drop for GrowingList<T> {
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
