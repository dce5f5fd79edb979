//! The hands of a shard's owner, as readers find them: what was taken out of the buckets and is
//! still pending is here.
//!
//! *Owner*: the shard's owner fills them; anyone reads, under a guard.
//!
//! *Invariants*: a hand lives as long as the shard and is used again when it is empty; there are
//! no more than the most rounds that were ever at hand at a time, and two. An entry goes from its
//! bucket into a wide hand, from there perhaps into a narrow one, and never back. So a reader that
//! comes by in this order meets whatever stays pending and is not re-filed.
//!
//! *Orderings*: BUCKET-READ.

use std::ptr;

use crate::entry::Entry;
use crate::inbox::Hand;
use crate::sync::{Arc, AtomicPtr, Ordering};

/// All hands of a shard.
pub(super) struct Hands<T> {
    /// For what a bucket held: one is due, one is cascaded eagerly.
    wide: [Arc<Hand<Entry<T>>>; 2],
    /// For the rounds at hand: a list that only grows.
    narrow: AtomicPtr<Link<T>>,
}

struct Link<T> {
    hand: Arc<Hand<Entry<T>>>,
    next: *mut Link<T>,
}

// SAFETY: links are published once, never change afterwards, and live as long as the list; the
// hands are lists of entries, which may be sent and shared where payloads may be sent.
unsafe impl<T: Send> Send for Hands<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Hands<T> {}

// === impl Hands ===

impl<T> Hands<T> {
    /// The two wide ones.
    pub(super) fn new() -> Hands<T> {
        Hands {
            wide: [Arc::new(Hand::wide()), Arc::new(Hand::wide())],
            narrow: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The two wide ones, for the owner.
    pub(super) fn wide(&self) -> [Arc<Hand<Entry<T>>>; 2] {
        self.wide.clone()
    }

    /// Owner only: makes another narrow one.
    pub(super) fn add(&self) -> Arc<Hand<Entry<T>>> {
        let hand: Arc<Hand<Entry<T>>> = Arc::new(Hand::narrow());
        // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller. Release - pairs with the
        // Acquire in `iter`: the hand is made.
        let next = self.narrow.load(Ordering::Relaxed);
        let link = Box::into_raw(Box::new(Link { hand: hand.clone(), next }));
        self.narrow.store(link, Ordering::Release);
        hand
    }

    /// The wide ones, then the narrow ones, of which the list is read when the others were seen.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Hand<Entry<T>>> {
        let mut wide = self.wide.iter();
        let mut narrow = None;
        std::iter::from_fn(move || {
            if let Some(hand) = wide.next() {
                return Some(&**hand);
            }
            // ORDER(BUCKET-READ): Acquire - pairs with the Release in `add`.
            let link = narrow.unwrap_or_else(|| self.narrow.load(Ordering::Acquire));
            // SAFETY: a published link is never freed or changed while the list lives.
            let this = unsafe { link.as_ref() }?;
            narrow = Some(this.next);
            Some(&*this.hand)
        })
    }
}

impl<T> Drop for Hands<T> {
    fn drop(&mut self) {
        // ORDER: Relaxed - nobody else is left.
        let mut link = self.narrow.load(Ordering::Relaxed);
        while !link.is_null() {
            // SAFETY: every link came from a box, and the list is going.
            let this = unsafe { Box::from_raw(link) };
            link = this.next;
        }
    }
}
