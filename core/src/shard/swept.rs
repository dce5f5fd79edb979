//! Where a sweep is, and the link that it changes: what a thread that sweeps and the shard's owner
//! settle between them, neither waiting for the other.
//!
//! A sweep *cuts* a dead entry out of its list: it points the link of the entry before it to the
//! one behind it. Meanwhile the owner may open these lists, and read that link before it is changed
//! or after it. If it reads it before, it comes across the entry, and the entry is not free.
//!
//! *Owner*: the thread that has the sweep's lock enters lists, cuts and leaves. The shard's owner
//! opens.
//!
//! *Orderings*: CUT. One word decides. It has the address of the lists that are being swept.
//!
//! - The sweep writes the word, fences, and then reads the first entries. The owner takes the
//!   lists, fences, and then reads the word, before it passes an entry. So it finds its lists
//!   there, or the sweep finds nothing of what the owner took.
//! - If the word names the lists that the owner has opened, the owner marks it: OPENED. From then
//!   on the sweep begins no cut there, and leaves.
//! - The sweep keeps the dead entry, as a producer keeps a seat (SEAT), so nobody reuses it. Then
//!   it writes which links it is about to change, and marks the word: CUTTING. That fails if the
//!   word is marked OPENED. Then it changes the link by a CAS, and takes its mark off.
//! - An owner that finds CUTTING ends the cut itself, by the same CAS, before it passes an entry.
//!   Either its own CAS succeeds or the sweep's, however late that comes: the entry is kept, so it
//!   does not come behind the one before it again. So the owner goes through lists that change no
//!   more. It takes the mark CUTTING off when it is done; until then the sweep pauses.
//! - If the CAS of the sweep has succeeded, the owner does not come across the entry: it is free.
//!   Otherwise the owner comes across it, or has cut it out. The owner clears the entry's list bit,
//!   the sweep lets go of the entry, and the last of the two frees it (RELEASE).
//!
//! A sweep that is held up may keep an entry that was unlinked meanwhile, used again, and now lies
//! in another list. Then its own lists were opened before: it finds the mark, changes nothing, and
//! lets go.
//!
//! The first entry of a list is not cut. Only the owner takes it out, by a CAS of the head where
//! producers push.
//!
//! *Tested by*: `loom-tests/tests/{cut,suspended}.rs`.

use std::ptr;

use crate::entry::{Entry, Linked};
use crate::sync::{AtomicUsize, Ordering, UnsafeCell, fence};

/// The owner has opened the lists.
const OPENED: usize = 0b01;

/// A link is being changed.
const CUTTING: usize = 0b10;

/// The place of a sweep.
pub(super) struct Swept<T> {
    /// The address of a bucket or a tray, and the marks. Zero: no sweep is under way.
    at: AtomicUsize,
    /// The cut under way: the entry before, the dead entry, and the one behind it. The sweep writes
    /// it before it marks the word. An owner reads it that has found that mark, until it takes the
    /// mark off.
    cut: UnsafeCell<[*mut Entry<T>; 3]>,
    /// How many entries were cut out of rounds that are put aside.
    cuts_in_rounds: AtomicUsize,
}

// SAFETY: entries are shared between threads; the marks say who may look at the cut.
unsafe impl<T: Send> Send for Swept<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Swept<T> {}

/// How a sweep goes on in its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// They were not opened.
    On,
    /// They were opened.
    Out,
    /// They were opened, and the owner is ending a cut.
    Pause,
}

// === impl Swept ===

impl<T> Swept<T> {
    pub(super) fn new() -> Swept<T> {
        let cut = UnsafeCell::new([ptr::null_mut(); 3]);
        Swept { at: AtomicUsize::new(0), cut, cuts_in_rounds: AtomicUsize::new(0) }
    }

    /// An entry was cut out of a round that is put aside. To be called before the entry can be used
    /// again: a reader that stands on it then is led away, and loses what comes behind it in the
    /// round.
    pub(super) fn note_cut_in_round(&self) {
        // ORDER(BUCKET-READ): Release - pairs with the Acquire in `cuts_in_rounds`: a reader that
        // finds the number from before the entry is used again makes another pass; one that finds
        // this number does not come across the entry.
        self.cuts_in_rounds.fetch_add(1, Ordering::Release);
    }

    /// How many entries were cut out of rounds that are put aside. For readers.
    pub(super) fn cuts_in_rounds(&self) -> usize {
        // ORDER(BUCKET-READ): Acquire - see `note_cut_in_round`.
        self.cuts_in_rounds.load(Ordering::Acquire)
    }

    /// Whether a sweep is under way, perhaps paused.
    #[inline]
    pub(super) fn is_under_way(&self) -> bool {
        // ORDER(SWEEP): Relaxed - the lock decides; a thread that ends its part looks again.
        self.at.load(Ordering::Relaxed) != 0
    }

    /// The sweep enters lists; their first entries are read after this. Zero: it ends.
    pub(super) fn enter(&self, lists: usize) {
        // ORDER(CUT): Acquire - pairs with the Release in `open_swept`: the owner reads the cut no
        // more. A swap, as every change of the word is a CAS or the like: so an owner that finds
        // the sweep elsewhere acquires the end of each cut before, and sees each link that was
        // changed.
        self.at.swap(lists, Ordering::Acquire);
        // ORDER(CUT): SeqCst - pairs with the fence of the owner, which has taken the lists: its
        // word is read after that fence, or its lists are read after this one.
        fence(Ordering::SeqCst);
    }

    /// Whether the lists that the sweep is in have been opened, as far as it knows.
    #[inline]
    pub(super) fn way(&self, lists: usize) -> Way {
        // ORDER(CUT): Relaxed - `cut` decides.
        Swept::<T>::way_of(self.at.load(Ordering::Relaxed), lists)
    }

    /// The same after a pause. `On`: no entry of the lists was passed before this, so what the
    /// sweep knows of them is there, as long as the caller is a reader.
    pub(super) fn resume(&self, lists: usize) -> Way {
        // ORDER(CUT): AcqRel - a CAS, which finds the latest value: an owner that opens later
        // acquires that the caller is a reader, and so retires nothing under it.
        match self.at.compare_exchange(lists, lists, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Way::On,
            Err(at) => Swept::<T>::way_of(at, lists),
        }
    }

    fn way_of(at: usize, lists: usize) -> Way {
        debug_assert!(at & !(OPENED | CUTTING) == lists, "it is the sweep that moves on");
        match at & (OPENED | CUTTING) {
            OPENED => Way::Out,
            0 => Way::On,
            _ => Way::Pause,
        }
    }

    /// Points the link of `before` from `entry` to `next`. Returns `false` if `entry` stays in its
    /// list, or the owner has it.
    ///
    /// # Safety
    /// The caller has the sweep's lock, is in `lists`, and is a reader. It keeps `entry`, which
    /// came behind `before` and before `next` when it read these links there.
    pub(super) unsafe fn cut(&self, lists: usize, cut: [*mut Entry<T>; 3]) -> bool {
        let [before, entry, next] = cut;
        // SAFETY: the caller has the sweep's lock. No owner reads the cut: one that did has taken
        // its mark off, for which the sweep has paused before it entered these lists.
        self.cut.with_mut(|place| unsafe { *place = cut });
        // ORDER(CUT): AcqRel - Release publishes the cut, and that the entry is kept; Acquire, also
        // where it fails: what the owner did to entries that this thread still knows.
        let mark = lists | CUTTING;
        if self.at.compare_exchange(lists, mark, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return false;
        }
        // SAFETY: the lists were not opened before the mark, so it was in one of them; the caller
        // is a reader.
        let is_cut = lead_past(unsafe { &*before }, entry, next);
        // ORDER(CUT): AcqRel - Release: an owner that opens from now on sees the link; Acquire: an
        // owner that has opened has ended the cut, or will.
        let _ = self.at.compare_exchange(mark, lists, Ordering::AcqRel, Ordering::Acquire);
        is_cut
    }

    /// For the owner, which has taken these lists, and fenced, and passes their entries after this.
    /// Returns a dead entry that it has cut out of them, and whose list bit is to be cleared.
    #[inline]
    pub(super) fn open(&self, lists: usize) -> Option<*mut Entry<T>> {
        // ORDER(CUT): Acquire - pairs with the Release in `enter`.
        match self.at.load(Ordering::Acquire) & !(OPENED | CUTTING) == lists {
            true => self.open_swept(lists),
            false => None,
        }
    }

    #[cold]
    fn open_swept(&self, lists: usize) -> Option<*mut Entry<T>> {
        let mark = |at| (at & !CUTTING == lists).then_some(at | OPENED);
        // ORDER(CUT): AcqRel - Release pairs with `resume` and with the CAS in `cut`: what the
        // owner does to the entries comes after the mark; Acquire pairs with the same: the links
        // that the sweep has changed, and its cut. Acquire also where the sweep has moved on.
        let at = self.at.fetch_update(Ordering::AcqRel, Ordering::Acquire, mark).ok()?;
        if at & CUTTING == 0 {
            return None;
        }
        // SAFETY: it was written before the mark was set, which the owner has acquired, and the
        // sweep changes it only after the owner has taken the mark off.
        let [before, entry, next] = self.cut.with(|cut| unsafe { *cut });
        // SAFETY: it was in the lists when the sweep marked the word, and nobody had opened them
        // until now: the owner holds it by its list bit.
        let is_cut = lead_past(unsafe { &*before }, entry, next);
        // ORDER(CUT): Release - pairs with the Acquire in `enter`: the sweep changes the cut after
        // this.
        self.at.fetch_and(!CUTTING, Ordering::Release);
        is_cut.then_some(entry)
    }
}

/// Points the link of `before` to `next`, if it points to `entry`.
fn lead_past<T>(before: &Entry<T>, entry: *mut Entry<T>, next: *mut Entry<T>) -> bool {
    // ORDER(CUT, BUCKET-READ): Release - as for every link. (A reader of the entry before sees the
    // next one as it was pushed in any case: it was pushed earlier.) Relaxed: the loser leaves it.
    before.next().compare_exchange(entry, next, Ordering::Release, Ordering::Relaxed).is_ok()
}

debug! { impl[T] Swept[T] {} }
