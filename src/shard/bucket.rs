//! A bucket: an inbox of entries, and what it was last armed for.
//!
//! *Owner*: anyone pushes and arms; the shard's owner takes, files on lists of its own, and alone
//! uses `queued`.
//!
//! *Orderings*: BUCKET-PUSH, BUCKET-ARM.

use std::ptr::NonNull;

use crate::entry::Entry;
use crate::inbox::{Lanes, OwnLanes, Walk};
use crate::sync::{AtomicU64, Life, Ordering};
use crate::time::{Place, Tick};

use super::Notice;

/// One bucket of a level: four cache lines, of which a push that needs no notice writes one.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Bucket<T> {
    /// What producers filed.
    pub lanes: Lanes<Entry<T>>,
    expiration: AtomicU64,
    queued: AtomicU64,
    notices: [Notice; 2],
    /// What the owner filed.
    pub(super) own: OwnLanes<Entry<T>>,
    life: Life,
}

#[cfg(all(not(any(loom, shuttle)), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Bucket<[usize; 4]>>() == 256, "a bucket is four cache lines");

/// No expiration: [`Tick`]s are smaller.
const NONE: u64 = u64::MAX;

// === impl Bucket ===

impl<T> Bucket<T> {
    /// An empty bucket that was never armed.
    pub fn new(level: u8, slot: u32) -> Bucket<T> {
        Bucket {
            lanes: Lanes::new(),
            expiration: AtomicU64::new(NONE),
            queued: AtomicU64::new(NONE),
            notices: [Notice::resident(level, slot), Notice::resident(level, slot)],
            own: OwnLanes::new(),
            life: Life::begin(),
        }
    }

    /// Owner only: takes everything that is filed here, as chains (some of them null). All of
    /// them are to be taken.
    #[inline]
    pub(super) fn take(&self) -> impl Iterator<Item = *mut Entry<T>> + '_ {
        self.lanes.take().chain(self.own.take())
    }

    /// Owner only: takes everything, and refuses every push from now on.
    pub(super) fn close(&self) -> Walk<Entry<T>> {
        Walk::new(self.lanes.close().chain(self.own.take()))
    }

    /// Each list's first entry, for a reader under a guard.
    pub fn firsts(&self) -> impl Iterator<Item = *mut Entry<T>> + '_ {
        self.lanes.firsts().chain(self.own.firsts())
    }

    /// Whether the bucket was last armed for `expiration`.
    #[inline]
    pub fn is_armed_for(&self, expiration: Tick) -> bool {
        self.life.look();
        // ORDER(BUCKET-ARM): Acquire - pairs with the Release in `arm`: the notice that covers
        // this expiration was posted before.
        self.expiration.load(Ordering::Acquire) == expiration.get()
    }

    /// Publishes what the bucket is armed for: from now on producers rely on it.
    #[inline]
    pub fn arm(&self, expiration: Tick) {
        self.life.look();
        // ORDER(BUCKET-ARM): Release - pairs with the Acquire in `is_armed_for`.
        self.expiration.store(expiration.get(), Ordering::Release);
    }

    /// A notice that the bucket is armed for `place`, to be posted.
    pub fn notice(&self, place: Place) -> NonNull<Notice> {
        self.life.look();
        match self.notices.iter().find(|notice| notice.claim(place)) {
            Some(notice) => NonNull::from(notice),
            None => Notice::boxed(place),
        }
    }

    /// Owner only: remembers that the agenda has the bucket for `expiration`. `false`: it knew.
    pub fn set_queued(&self, expiration: Tick) -> bool {
        // ORDER: Relaxed - only the owner's exclusion reads and writes it.
        let is_new = self.queued.load(Ordering::Relaxed) != expiration.get();
        if is_new {
            // Only then, because producers read this line.
            self.queued.store(expiration.get(), Ordering::Relaxed);
        }
        is_new
    }

    /// Owner only: the agenda has the bucket for `expiration` no longer.
    pub fn clear_queued(&self, expiration: Tick) {
        // ORDER: Relaxed - as in `set_queued`.
        if self.queued.load(Ordering::Relaxed) == expiration.get() {
            self.queued.store(NONE, Ordering::Relaxed);
        }
    }
}

impl<T> Drop for Bucket<T> {
    fn drop(&mut self) {
        self.life.end();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_remembers_the_last_opening_that_went_on_the_agenda() {
        let bucket = Bucket::<()>::new(1, 5);
        let [first, second] = [5, 69].map(Tick::new);
        assert!(bucket.set_queued(first) && !bucket.set_queued(first));
        assert!(bucket.set_queued(second) && !bucket.set_queued(second));
        bucket.clear_queued(first);
        assert!(!bucket.set_queued(second), "that one is still on it");
        bucket.clear_queued(second);
        assert!(bucket.set_queued(second));
    }
}
