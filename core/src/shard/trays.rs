//! The trays of a shard's owner, as readers find them: they hold the entries that were taken out of
//! the buckets and are still pending.
//!
//! *Owner*: the shard's owner fills them; any thread reads them, under a guard.
//!
//! *Invariants*: a tray lives as long as the shard and is reused when it is empty. There are two
//! wide trays and one for each bucket that was ever parked at a time, and at most as many narrow
//! ones as rounds were ever put aside at a time. An entry goes from its bucket into a wide tray,
//! from there perhaps into a narrow one, and never back. So a reader that visits them in this order
//! meets every entry that stays pending and is not re-filed.
//!
//! *Orderings*: BUCKET-READ.

use std::iter;
use std::ptr;

use crate::entry::Entry;
use crate::inbox::Tray;
use crate::sync::{Arc, AtomicPtr, Ordering};

/// All trays of a shard.
pub(super) struct Trays<T> {
    /// For the entries of a bucket: one is due, one is cascaded eagerly, the others are parked.
    wide: GrowingList<T>,
    /// For the rounds that are put aside.
    narrow: GrowingList<T>,
}

/// A list that only grows.
struct GrowingList<T> {
    first: AtomicPtr<Link<T>>,
}

struct Link<T> {
    tray: Arc<Tray<Entry<T>>>,
    next: *mut Link<T>,
}

// SAFETY: links are published once, never change afterwards, and live as long as the list; the
// trays are lists of entries, which may be sent and shared where payloads may be sent.
unsafe impl<T: Send> Send for GrowingList<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for GrowingList<T> {}

// === impl Trays ===

impl<T> Trays<T> {
    pub(super) fn new() -> Trays<T> {
        Trays { wide: GrowingList::new(), narrow: GrowingList::new() }
    }

    /// Owner only: makes another wide tray.
    pub(super) fn add_wide(&self) -> Arc<Tray<Entry<T>>> {
        self.wide.add(Arc::new(Tray::wide()))
    }

    /// Owner only: makes another narrow tray.
    pub(super) fn add(&self) -> Arc<Tray<Entry<T>>> {
        self.narrow.add(Arc::new(Tray::narrow()))
    }

    /// The narrow trays.
    pub(super) fn rounds(&self) -> impl Iterator<Item = &Arc<Tray<Entry<T>>>> {
        self.narrow.iter()
    }

    /// The wide trays, then the narrow ones, whose list is read after the wide ones were visited.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Tray<Entry<T>>> {
        let narrow = iter::once_with(|| self.narrow.iter()).flatten();
        self.wide.iter().chain(narrow).map(|tray| &**tray)
    }
}

// === impl GrowingList ===

impl<T> GrowingList<T> {
    fn new() -> GrowingList<T> {
        GrowingList { first: AtomicPtr::new(ptr::null_mut()) }
    }

    fn add(&self, tray: Arc<Tray<Entry<T>>>) -> Arc<Tray<Entry<T>>> {
        // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller. Release - pairs with the
        // Acquire in `iter`: publishes the tray. A reader that finds a bucket empty, because it was
        // taken into a tray, finds that tray.
        let next = self.first.load(Ordering::Relaxed);
        let link = Box::into_raw(Box::new(Link { tray: tray.clone(), next }));
        self.first.store(link, Ordering::Release);
        tray
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Tray<Entry<T>>>> {
        // ORDER(BUCKET-READ): Acquire - pairs with the Release in `add`.
        let mut link = self.first.load(Ordering::Acquire);
        iter::from_fn(move || {
            // SAFETY: a published link is never freed or changed while the list lives.
            let this = unsafe { link.as_ref() }?;
            link = this.next;
            Some(&this.tray)
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
