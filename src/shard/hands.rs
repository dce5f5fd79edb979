//! The hands of a shard's owner, as readers find them: they hold the entries that were taken out of
//! the buckets and are still pending.
//!
//! *Owner*: the shard's owner fills them; any thread reads them, under a guard.
//!
//! *Invariants*: a hand lives as long as the shard and is reused when it is empty. There are two
//! wide hands, and at most as many narrow ones as rounds were ever at hand at a time. An entry goes
//! from its bucket into a wide hand, from there perhaps into a narrow one, and never back. So a
//! reader that visits them in this order meets every entry that stays pending and is not re-filed.
//!
//! *Orderings*: BUCKET-READ.

use std::ptr;

use crate::entry::Entry;
use crate::inbox::Hand;
use crate::sync::{Arc, AtomicPtr, Ordering};

/// All hands of a shard.
pub(super) struct Hands<T> {
    /// For the entries of a bucket: one is due, one is cascaded eagerly.
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
    /// The two wide hands.
    pub(super) fn new() -> Hands<T> {
        Hands {
            wide: [Arc::new(Hand::wide()), Arc::new(Hand::wide())],
            narrow: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The two wide hands, for the owner.
    pub(super) fn wide(&self) -> [Arc<Hand<Entry<T>>>; 2] {
        self.wide.clone()
    }

    /// Owner only: makes another narrow hand.
    pub(super) fn add(&self) -> Arc<Hand<Entry<T>>> {
        let hand: Arc<Hand<Entry<T>>> = Arc::new(Hand::narrow());
        // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller. Release - pairs with the
        // Acquire in `iter`: publishes the hand.
        let next = self.narrow.load(Ordering::Relaxed);
        let link = Box::into_raw(Box::new(Link { hand: hand.clone(), next }));
        self.narrow.store(link, Ordering::Release);
        hand
    }

    /// The wide hands, then the narrow ones, whose list is read after the wide ones were visited.
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
        // ORDER: Relaxed - no other thread is left.
        let mut link = self.narrow.load(Ordering::Relaxed);
        while !link.is_null() {
            // SAFETY: every link came from a box, and the list is going.
            let this = unsafe { Box::from_raw(link) };
            link = this.next;
        }
    }
}
