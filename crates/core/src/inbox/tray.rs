//! A tray: the chains of nodes that an owner took out of the lists of a bucket, until it has gone
//! through them. Readers find the nodes there.
//!
//! ```text
//!  lists of the bucket                 tray: a cursor for each chain
//!   lane 0  ─► a ─► b                   0 ─► a ─► b
//!   lane 1                   take       1 ─► c             ◄─ `At`: this chain is next,
//!   lane 2  ─► c            ─────►      2 ─► d ─► e           and the first three are live
//!   own 0   ─► d ─► e                   3
//! ```
//!
//! The owner passes one node of each chain in turn, while the next nodes are prefetched. When a
//! chain ends, the last live chain moves into its place. So the live chains come first.
//!
//! A *wide* tray has room for all lists of a bucket: `begin`, `take`, then `peek` and `pass` for
//! each node. A *narrow* tray is for nodes that are put aside: `begin`, `give` for each; later
//! `open`, then `peek` and `pass`. A node that leaves for another tray or for a list is shown as
//! *moving* meanwhile.
//!
//! *Owner*: one thread fills the tray and goes through it, and holds every node in it. Anyone
//! reads, under a guard. A sweep of the owner takes nodes out of a narrow tray that was not opened
//! yet.
//!
//! *Invariants*: a node's link is read before the node is passed, so that the owner may free the
//! node or push it elsewhere. A chain moves only to the front. Readers that come later do not reach
//! a passed node.
//!
//! *Orderings*: BUCKET-READ. A reader that looks into the lists first, then into the tray,
//! finds each node that stays in one or the other:
//! - *The list is empty already*: the owner has shown the chain in the tray before that.
//! - *The reader stands on a node that is passed and pushed elsewhere*: the link leads it astray.
//!   The cursor was written before that link, so the reader finds it beyond the nodes that it
//!   knows, and starts again from there.
//! - *The node is on its way*: it is shown as moving before it is passed, and no longer when it has
//!   arrived.
//!
//! A reader may also follow a link that is written when its node is pushed again, perhaps on a list
//! of another shard, and the pusher may have loaded a stale head of that list. Without the fence in
//! `end_take` that link could lead to a node that was freed before the reader came;
//! `entry/reclaim.rs` has the argument.
//!
//! *Tested by*: `loom-tests/tests/{bucket_push,bucket_read,tray,shard}.rs`.

use std::array;
use std::ptr::{self, NonNull};

use crate::entry::{Guard, Linked};
use crate::sync::{AtomicPtr, AtomicU64, IS_CHECKED, Ordering, fence, prefetch_to_write};

use super::lanes::{drop_first_alone, push_alone};
use super::walk::led_to;
use super::{LANES, Lanes, OWN_LANES, OwnLanes, Stack, Walk, behind, next_of};

/// Chains in a tray that has room for all lists of a bucket.
pub const CHAINS: usize = LANES + OWN_LANES;

/// Chains in a tray for nodes that are put aside: there may be many such trays.
const FEW_CHAINS: usize = if IS_CHECKED { 1 } else { 5 };

/// Chains that their owner goes through.
pub struct Tray<N, C: ?Sized = [AtomicPtr<N>]> {
    /// The number of the bucket in which its nodes were filed.
    bucket: AtomicU64,
    /// Counts `begin`, and then `take` or `open`.
    begun: AtomicU64,
    /// A node that is leaving for another tray or for a list, or null.
    moving: AtomicPtr<N>,
    /// The next node of each chain, or null.
    cursors: C,
}

/// The owner's position in a tray.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The chain of the next node.
    chain: usize,
    /// The number of chains that have nodes left; they are the first ones.
    live: usize,
}

// === impl Tray ===

impl<N, const C: usize> Tray<N, [AtomicPtr<N>; C]> {
    fn empty() -> Self {
        Tray {
            bucket: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            moving: AtomicPtr::new(ptr::null_mut()),
            cursors: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }
}

impl<N> Tray<N, [AtomicPtr<N>; CHAINS]> {
    /// An empty tray that has room for all lists of a bucket.
    pub fn wide() -> Self {
        Tray::empty()
    }
}

impl<N> Tray<N, [AtomicPtr<N>; FEW_CHAINS]> {
    /// An empty tray for nodes that are put aside.
    pub fn narrow() -> Self {
        Tray::empty()
    }
}

// === impl Tray: the owner fills it ===

impl<N: Linked> Tray<N> {
    /// Whether it has room for all lists of a bucket.
    #[inline]
    pub fn is_wide(&self) -> bool {
        self.cursors.len() >= CHAINS
    }

    /// Starts anew. The tray is empty, and its next nodes were filed in the bucket of this number.
    #[inline]
    pub fn begin(&self, bucket: u64) {
        debug_assert!(self.heads().all(<*mut N>::is_null), "what is left in a tray would be lost");
        // ORDER(BUCKET-READ): Release - pairs with the Acquire in `read`: a reader that knows the
        // new bucket knows that what was here before has left.
        self.bucket.store(bucket, Ordering::Release);
        self.step();
    }

    #[inline]
    fn step(&self) {
        // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller. Release - pairs with the
        // Acquire in `note` and `filled`; and a reader of a cursor that is stored from now on reads
        // this too. (Relaxed would do, which no model can tell: the fence of `end_take` comes
        // before its step, and who finds the step of `begin` or `open` relies on the cursors.)
        let begun = self.begun.load(Ordering::Relaxed) + 1;
        self.begun.store(begun, Ordering::Release);
    }

    /// Takes everything out of the lists of a bucket. The tray is wide, and `begin` was just
    /// called.
    ///
    /// # Safety
    /// The caller is the tray's owner and the lists' one taker, and has not closed the lanes.
    #[inline]
    pub unsafe fn take(&self, lanes: &Lanes<N>, own: &OwnLanes<N>) -> At {
        self.take_own(own, self.take_lanes(lanes))
    }

    /// As `take`, for a bucket in which the owner has filed nothing.
    ///
    /// # Safety
    /// As [`Tray::take`].
    #[inline]
    pub(crate) unsafe fn take_shared(&self, lanes: &Lanes<N>) -> At {
        self.end_take(self.take_lanes(lanes))
    }

    /// As `take`, and every later push on the lanes is refused.
    ///
    /// # Safety
    /// As [`Tray::take`]; it may have closed the lanes.
    pub(crate) unsafe fn take_and_close(&self, lanes: &Lanes<N>, own: &OwnLanes<N>) -> At {
        let mut live = 0;
        for first in lanes.each().iter().map(Stack::close).filter(|first| !first.is_null()) {
            self.show(live, first);
            live += 1;
        }
        self.take_own(own, live)
    }

    /// Takes everything out of the lists that others push on. Returns how many chains that are.
    #[inline]
    fn take_lanes(&self, lanes: &Lanes<N>) -> usize {
        let mut live = 0;
        for lane in lanes.each() {
            live += usize::from(lane.take(|first| self.show(live, first)));
        }
        live
    }

    /// Goes on with a `take` that has filled the first `live` chains.
    #[inline]
    fn take_own(&self, own: &OwnLanes<N>, mut live: usize) -> At {
        own.take(|first| {
            self.show(live, first);
            live += 1;
        });
        self.end_take(live)
    }

    /// Ends a `take` that has filled the first `live` chains.
    #[inline]
    fn end_take(&self, live: usize) -> At {
        // ORDER(BUCKET-READ): SeqCst - after the lists were taken, before anybody can have a node
        // for another push: pairs with the fences of a retirement and of a reader's pin. A thread
        // that pushes one of these nodes again cannot load a head that was taken away before a
        // retirement that preceded a reader on that node.
        fence(Ordering::SeqCst);
        // So a tray that was filled and emptied differs from one that was not filled.
        self.step();
        At { chain: 0, live }
    }

    /// Shows the first node of a list to readers.
    #[inline]
    fn show(&self, chain: usize, first: *mut N) {
        prefetch_to_write(first.addr());
        // ORDER(BUCKET-READ): Release - pairs with the reader's Acquire of the cursor: the reader
        // sees the node as it was pushed.
        self.cursors[chain].store(first, Ordering::Release);
    }

    /// Puts a node on the chain for `lane`. For a narrow tray that was not opened yet.
    ///
    /// # Safety
    /// The caller is the tray's owner, holds the node alone (its link is written), and leaves the
    /// node here.
    pub unsafe fn give(&self, node: NonNull<N>, lane: usize) {
        // SAFETY: passed on to the caller.
        unsafe { push_alone(&self.cursors[lane % self.cursors.len()], node) };
    }

    /// Starts to go through the nodes that it was given.
    pub fn open(&self) -> At {
        let mut live = 0;
        for chain in 0..self.cursors.len() {
            // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller.
            let first = self.cursors[chain].load(Ordering::Relaxed);
            if first.is_null() {
                continue;
            }
            prefetch_to_write(first.addr());
            if live < chain {
                self.move_chain(first, chain, live);
            }
            live += 1;
        }
        // As in `end_take`.
        self.step();
        At { chain: 0, live }
    }
}

// === impl Tray: the owner goes through it ===

impl<N: Linked> Tray<N> {
    /// The node that is passed next.
    #[inline]
    pub fn peek(&self, at: &At) -> Option<NonNull<N>> {
        // Once the tray is done, its first chain is empty.
        // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller.
        NonNull::new(self.cursors[at.chain].load(Ordering::Relaxed))
    }

    /// Passes the node that `peek` returned: readers that come later do not find it here.
    ///
    /// # Safety
    /// The caller is the tray's owner, and `peek` returned the node at the same position.
    #[inline]
    pub unsafe fn pass(&self, at: &mut At, node: NonNull<N>) {
        let chain = at.chain;
        // SAFETY: the tray holds the node until it is passed.
        let next = next_of(unsafe { node.as_ref() });
        prefetch_to_write(next.addr());
        if next.is_null() {
            // The last chain takes the place of the one that ended.
            at.live -= 1;
            // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller.
            let last = self.cursors[at.live].load(Ordering::Relaxed);
            self.move_chain(last, at.live, chain);
        } else {
            // ORDER(BUCKET-READ): Release - pairs with the reader's Acquire of the cursor: the
            // reader sees that node as it was pushed, which the owner has acquired.
            self.cursors[chain].store(next, Ordering::Release);
        }
        at.chain = if chain + 1 < at.live { chain + 1 } else { 0 };
    }

    /// Moves the chain that begins at `first` further to the front. Readers go from the back to the
    /// front, so they find it in one of the two places.
    #[inline]
    fn move_chain(&self, first: *mut N, from: usize, to: usize) {
        if from != to {
            // ORDER(BUCKET-READ): Release, here and below - as in `pass`; and a reader that finds
            // the old place empty finds the chain in the new one.
            self.cursors[to].store(first, Ordering::Release);
        }
        self.cursors[from].store(ptr::null_mut(), Ordering::Release);
    }

    /// Declares that `node`, which is passed next, leaves for another tray or for a list.
    ///
    /// # Safety
    /// The caller is the tray's owner, and `peek` returned the node.
    #[inline]
    pub unsafe fn set_moving(&self, node: NonNull<N>) {
        self.show_moving(node.as_ptr());
    }

    #[inline]
    fn show_moving(&self, node: *mut N) {
        // ORDER(BUCKET-READ): Release - pairs with the Acquire in `read`: a reader that finds the
        // node passed finds it moving. A reader that finds it no longer moving finds it where it
        // went.
        self.moving.store(node, Ordering::Release);
    }

    /// Declares that the moving node has arrived, or that the owner is about to end it.
    #[inline]
    pub fn set_moved(&self) {
        self.show_moving(ptr::null_mut());
    }

    /// The nodes that are still to be passed, left in place. For the owner.
    pub fn rest<'g>(&'g self, guard: Guard<'g>) -> impl Iterator<Item = &'g N> {
        self.cursors.iter().flat_map(move |cursor| Walk::from(led_to(cursor, guard), guard))
    }
}

// === impl Tray: the owner sweeps it ===

impl<N: Linked> Tray<N> {
    /// The address of the first node of each chain, or null. For the owner.
    pub(crate) fn heads(&self) -> impl Iterator<Item = *mut N> {
        // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller.
        self.cursors.iter().map(|cursor| cursor.load(Ordering::Relaxed))
    }

    /// Takes `node` out of a chain if it is the first one there; `next` comes after it. For an
    /// owner that sweeps a narrow tray which was not opened yet.
    ///
    /// # Safety
    /// The caller is the tray's owner, `node` is in the chain, and its link leads to `next`.
    pub unsafe fn drop_first(&self, chain: usize, node: *mut N, next: *mut N) -> bool {
        drop_first_alone(&self.cursors[chain], node, next)
    }
}

// === impl Tray: for readers ===

impl<N: Linked> Tray<N> {
    /// Calls `visit` with each node that is here throughout, and perhaps with others; some nodes
    /// come twice. `visit` also gets the number of their bucket, or `None` for a moving
    /// node. Follows at most `steps` links, and no chain beyond a node for which `visit` returns
    /// `false`.
    pub fn read<'g>(
        &self,
        guard: Guard<'g>,
        steps: &mut u64,
        mut visit: impl FnMut(Option<u64>, &'g N) -> bool,
    ) where
        N: 'g,
    {
        let mut path = Vec::new();
        for cursor in self.cursors.iter().rev() {
            // ORDER(BUCKET-READ): Acquire - pairs with the stores of the cursor. A chain whose
            // cursor is null has ended, or has moved to a place that is visited later.
            while *steps > 0 && !cursor.load(Ordering::Acquire).is_null() {
                // ORDER(BUCKET-READ): Relaxed - who relies on a node here has acquired all that
                // was done to the tray before the node came; Acquire - pairs with the Release in
                // `begin`.
                let begun = self.begun.load(Ordering::Relaxed);
                let bucket = self.bucket.load(Ordering::Acquire);
                path.clear();
                let mut next = led_to(cursor, guard);
                while let Some(node) = next.filter(|_| *steps > 0) {
                    *steps -= 1;
                    path.push(ptr::from_ref(node));
                    if !visit(Some(bucket), node) {
                        break;
                    }
                    next = behind(node, guard);
                }
                // ORDER(BUCKET-READ): Acquire - a link that was written after its node was passed
                // brings the cursor along. No link from this position on was written before.
                let now = cursor.load(Ordering::Acquire);
                // ORDER(BUCKET-READ): Relaxed - brought along by the cursor.
                let is_same = self.begun.load(Ordering::Relaxed) == begun;
                if now.is_null() || is_same && path.contains(&now.cast_const()) {
                    break;
                }
            }
        }
        self.read_moving(guard, visit);
    }

    /// Calls `visit` with the moving node, if there is one.
    pub fn read_moving<'g>(
        &self,
        guard: Guard<'g>,
        mut visit: impl FnMut(Option<u64>, &'g N) -> bool,
    ) where
        N: 'g,
    {
        // (The Acquire pairs with the Release in `set_moving`.)
        if let Some(node) = led_to(&self.moving, guard) {
            visit(None, node);
        }
    }

    /// A number that changes when a wide tray is filled.
    pub fn filled(&self) -> u64 {
        // ORDER(BUCKET-READ): Acquire - pairs with the Release in `step`.
        self.begun.load(Ordering::Acquire)
    }

    /// Records how far the tray has been gone through. Returns `true` if no node is on its way out
    /// of it. If two calls record the same and return `true`, no node has left the tray in between.
    pub fn note(&self, progress: &mut Vec<usize>) -> bool {
        // ORDER(BUCKET-READ): Acquire - pairs with the Release in `begin`; with the stores of the
        // cursors: a caller that finds a node passed finds it moving, or no longer moving; and with
        // the Release in `set_moving`: a node that no longer moves is found where it went.
        progress.push(self.begun.load(Ordering::Acquire) as usize);
        let cursors = self.cursors.iter();
        progress.extend(cursors.map(|cursor| cursor.load(Ordering::Acquire) as usize));
        self.moving.load(Ordering::Acquire).is_null()
    }
}

// === impl At ===

impl At {
    /// Whether every node was passed.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.live == 0
    }
}

debug! { impl[N, C: ?Sized] Tray[N, C] {} }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
