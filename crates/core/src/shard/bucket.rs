//! A bucket: an inbox of entries, and what it was last armed for.
//!
//! *Owner*: any thread pushes and arms. Only the shard's owner takes, files on lists of its own,
//! and uses `own_for`.
//!
//! *Orderings*: BUCKET-PUSH, BUCKET-ARM. BUCKET-READ: a reader that finds no round for which the
//! owner files here passes the owner's lists; what was in them is then in a tray.

use std::array;
use std::ops::Range;
use std::ptr::NonNull;

use crate::entry::{Entry, Guard};
use crate::inbox::{At, CHAINS, LANES, Lanes, OwnLanes, Tray, Walk};
use crate::sync::{AtomicU64, Life, Ordering};
use crate::time::Tick;

/// One bucket of a level: four cache lines, of which a push that needs no notice writes one.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Bucket<T> {
    /// Entries that producers filed.
    pub lanes: Lanes<Entry<T>>,
    expiration: AtomicU64,
    /// The round for which the owner files entries here, which is on the agenda. If it has
    /// filed none, neither the owner nor a reader touches the two cache lines of its lists.
    own_for: AtomicU64,
    /// Entries that the owner filed.
    pub(super) own: OwnLanes<Entry<T>>,
    life: Life,
}

#[cfg(all(not(any(loom, shuttle)), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Bucket<[usize; 4]>>() == 256, "a bucket is four cache lines");

/// No time: [`Tick`]s are smaller.
const NONE: u64 = u64::MAX;

const _: () = assert!(Tick::NEVER.get() < NONE, "every time comes before the mark");

// === impl Bucket ===

impl<T> Bucket<T> {
    /// Owner only: takes everything that is filed here into a tray that was just begun.
    #[inline]
    pub(super) fn take_into(&self, tray: &Tray<Entry<T>>) -> At {
        if !self.has_own() {
            // SAFETY: this is the shard's owner, who closes a bucket last.
            return unsafe { tray.take_shared(&self.lanes) };
        }
        // SAFETY: this is the shard's owner, who closes a bucket last.
        let at = unsafe { tray.take(&self.lanes, &self.own) };
        // ORDER(BUCKET-READ): Relaxed - after the fence in `take`: a reader that finds no round
        // here finds in the tray what the owner had filed.
        self.own_for.store(NONE, Ordering::Relaxed);
        at
    }

    /// Owner only: files an entry on the list that `lane` picks, after [`Bucket::begin_own`].
    ///
    /// # Safety
    /// As [`OwnLanes::push`].
    #[inline]
    pub(super) unsafe fn push_own(&self, entry: NonNull<Entry<T>>, lane: usize) {
        debug_assert!(self.has_own(), "nobody would take the entry");
        // SAFETY: passed on to the caller.
        unsafe { self.own.push(entry, lane) };
    }

    /// Owner only: remembers that it files entries here for this round.
    pub(super) fn begin_own(&self, expiration: Tick) {
        // ORDER(BUCKET-READ): Relaxed - a reader that knows of an entry filed here after this sees
        // it.
        self.own_for.store(expiration.get(), Ordering::Relaxed);
    }

    /// Owner only: whether it may have filed entries here that were not taken.
    #[inline]
    fn has_own(&self) -> bool {
        self.own_for() != NONE
    }

    /// Owner only, for checks: whether it remembers that it has filed what is here.
    pub(super) fn knows_own(&self) -> bool {
        self.has_own() || self.heads()[LANES..].iter().all(|first| first.is_null())
    }

    /// Owner only: whether this is the round for which it files entries here.
    #[inline]
    pub(super) fn has_own_for(&self, expiration: Tick) -> bool {
        self.own_for() == expiration.get()
    }

    /// Owner only: takes `entry` out of a list if it is the first there; `next` is its successor.
    ///
    /// # Safety
    /// The entry is in the list, and its link leads to `next`.
    pub(super) unsafe fn drop_first(
        &self,
        list: usize,
        entry: *mut Entry<T>,
        next: *mut Entry<T>,
    ) -> bool {
        match list.checked_sub(LANES) {
            None => self.lanes.lane(list).drop_first(entry, next),
            // SAFETY: passed on to the caller, which is the owner.
            Some(lane) => unsafe { self.own.drop_first(lane, entry, next) },
        }
    }

    /// Owner only: as `take_into`, and every later push is refused.
    pub(super) fn close_into(&self, tray: &Tray<Entry<T>>) -> At {
        // SAFETY: this is the shard's owner.
        unsafe { tray.take_and_close(&self.lanes, &self.own) }
    }

    /// The numbers of the lists that may have entries, for the owner and for readers.
    #[inline]
    pub(super) fn lists(&self) -> Range<usize> {
        // ORDER(BUCKET-READ): Acquire - pairs with the fence in `take_into`.
        match self.own_for.load(Ordering::Acquire) {
            NONE => 0..LANES,
            _ => 0..CHAINS,
        }
    }

    /// The first entry of list number `list`.
    #[inline]
    pub fn first<'g>(&self, list: usize, guard: Guard<'g>) -> Option<&'g Entry<T>> {
        match list.checked_sub(LANES) {
            None => self.lanes.lane(list).first(guard),
            Some(lane) => self.own.first(lane, guard),
        }
    }

    /// Each list's first entry.
    pub fn firsts<'g>(&'g self, guard: Guard<'g>) -> impl Iterator<Item = &'g Entry<T>> {
        self.lists().filter_map(move |list| self.first(list, guard))
    }

    /// The entries of all lists, for the owner: another reader may be led to other lists.
    pub fn entries<'g>(&'g self, guard: Guard<'g>) -> impl Iterator<Item = &'g Entry<T>> {
        self.firsts(guard).flat_map(move |first| Walk::from(Some(first), guard))
    }

    /// Owner only: the address of the first entry of each list, or null.
    pub(super) fn heads(&self) -> [*mut Entry<T>; CHAINS] {
        array::from_fn(|list| match list.checked_sub(LANES) {
            None => self.lanes.lane(list).head(),
            Some(lane) => self.own.head(lane),
        })
    }

    /// Whether the bucket was last armed for `expiration`.
    #[inline]
    pub fn is_armed_for(&self, expiration: Tick) -> bool {
        self.life.look();
        // ORDER(BUCKET-ARM): Acquire - pairs with the Release in `arm`: the notice that covers
        // this expiration was posted before.
        self.expiration.load(Ordering::Acquire) == expiration.get()
    }

    /// Whether the expiration that the bucket was last armed for is not after `now`, or there was
    /// none. For a choice between buckets: nobody relies on it.
    pub(super) fn is_open_by(&self, now: Tick) -> bool {
        self.life.look();
        // ORDER: Relaxed - a stale answer costs a wake-up.
        let expiration = self.expiration.load(Ordering::Relaxed);
        expiration <= now.get() || expiration == NONE
    }

    /// Publishes what the bucket is armed for: from now on producers rely on it.
    #[inline]
    pub fn arm(&self, expiration: Tick) {
        self.life.look();
        // ORDER(BUCKET-ARM): Release - pairs with the Acquire in `is_armed_for`.
        self.expiration.store(expiration.get(), Ordering::Release);
    }

    #[inline]
    fn own_for(&self) -> u64 {
        // ORDER: Relaxed - only the owner writes it, under its lock.
        self.own_for.load(Ordering::Relaxed)
    }
}

impl<T> Default for Bucket<T> {
    /// An empty bucket that was never armed.
    fn default() -> Bucket<T> {
        Bucket {
            lanes: Lanes::default(),
            expiration: AtomicU64::new(NONE),
            own_for: AtomicU64::new(NONE),
            own: OwnLanes::default(),
            life: Life::begin(),
        }
    }
}

impl<T> Drop for Bucket<T> {
    fn drop(&mut self) {
        self.life.end();
    }
}
