//! The trays of a shard's owner, as readers find them: they hold the entries that were taken out of
//! the buckets and are still pending.
//!
//! *Owner*: the shard's owner fills them; any thread reads them, under a guard.
//!
//! *Invariants*: a tray lives as long as the shard and is reused when it is empty. There are as
//! many wide trays as buckets were ever open at a time, and at most as many narrow ones as rounds
//! were ever put aside at a time. An entry goes from its bucket into a wide tray,
//! from there perhaps into a narrow one, and never back. So a reader that visits them in this order
//! meets every entry that stays pending and is not re-filed.
//!
//! *Orderings*: BUCKET-READ.

use std::iter;

use crate::entry::Entry;
use crate::inbox::Tray;
use crate::sync::{Arc, AtomicUsize, GrowingList, Ordering};

/// All trays of a shard.
pub(super) struct Trays<T> {
    /// For the entries of a bucket: one is due, one is cascaded eagerly, the others are parked.
    wide: GrowingList<Arc<Tray<Entry<T>>>>,
    /// For the rounds that are put aside.
    narrow: GrowingList<Arc<Tray<Entry<T>>>>,
    /// How many entries were cut out of narrow trays.
    cuts: AtomicUsize,
}

// === impl Trays ===

impl<T> Trays<T> {
    pub(super) fn new() -> Trays<T> {
        let (wide, narrow) = (GrowingList::default(), GrowingList::default());
        Trays { wide, narrow, cuts: AtomicUsize::new(0) }
    }

    /// Owner only: makes another wide tray. A reader that finds a bucket empty, because it was
    /// taken into a tray, finds that tray.
    pub(super) fn add_wide(&self) -> Arc<Tray<Entry<T>>> {
        self.wide.add(Arc::new(Tray::wide())).clone()
    }

    /// Owner only: makes another narrow tray.
    pub(super) fn add(&self) -> Arc<Tray<Entry<T>>> {
        self.narrow.add(Arc::new(Tray::narrow())).clone()
    }

    /// Owner only: an entry was cut out of a narrow tray. To be called before the entry can be used
    /// again: a reader that stands on it then is led away, and loses what comes behind it.
    pub(super) fn note_cut(&self) {
        // ORDER(BUCKET-READ): Release - pairs with the Acquire in `cuts`: a reader that finds the
        // number from before the entry is used again makes another pass; one that finds this number
        // does not come across the entry.
        self.cuts.fetch_add(1, Ordering::Release);
    }

    /// How many entries were cut out of narrow trays. For readers.
    pub(super) fn cuts(&self) -> usize {
        // ORDER(BUCKET-READ): Acquire - see `note_cut`.
        self.cuts.load(Ordering::Acquire)
    }

    /// The wide trays, then the narrow ones, whose list is read after the wide ones were visited.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Tray<Entry<T>>> {
        let narrow = iter::once_with(|| self.narrow.iter()).flatten();
        self.wide.iter().chain(narrow).map(|tray| &**tray)
    }
}
