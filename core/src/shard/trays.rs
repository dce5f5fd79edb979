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

use crate::entry::Entry;
use crate::inbox::Tray;
use crate::sync::{Arc, GrowingList};

/// All trays of a shard.
pub(super) struct Trays<T> {
    /// For the entries of a bucket: one is due, one is cascaded eagerly, the others are parked.
    wide: GrowingList<Arc<Tray<Entry<T>>>>,
    /// For the rounds that are put aside.
    narrow: GrowingList<Arc<Tray<Entry<T>>>>,
}

// === impl Trays ===

impl<T> Trays<T> {
    pub(super) fn new() -> Trays<T> {
        Trays { wide: GrowingList::default(), narrow: GrowingList::default() }
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
