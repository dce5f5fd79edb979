//! The lists of a bucket: eight in a cache line, on which anyone pushes, and those of the taker.
//!
//! A chain of cold nodes costs one memory latency per node, because the address of the next is
//! in the last. Eight chains side by side let the walker wait for eight of them at once, at the
//! price of nothing: the heads share the cache line that a push needs anyway.
//!
//! A reaper re-files entries for itself: it both pushes and takes them. So the lists for these need
//! no CAS. A CAS is most of the cost of a push, and would keep the processor from going ahead to
//! the next node while it waits for this one.
//!
//! *Owner*: anyone pushes on [`Lanes`]; one taker takes, and pushes on [`OwnLanes`]; anyone reads,
//! under a guard.
//!
//! *Orderings*: BUCKET-READ; those of [`Lanes`] are in `stack.rs`.
//!
//! *Tested by*: `loom-tests/tests/{bucket_read,tray,shard}.rs`.

use std::array;
use std::ptr::{self, NonNull};

use crate::entry::{Guard, Linked};
use crate::sync::{AtomicPtr, IS_CHECKED, Ordering};

use super::walk::led_to;
use super::{Closed, Stack};

/// Lists of a bucket. Model checkers get two: enough for every race, few enough to finish.
pub const LANES: usize = if IS_CHECKED { 2 } else { 8 };

/// A bucket's lists. Pushers pick a lane; the taker always takes them all.
#[repr(align(64))]
pub struct Lanes<N> {
    lanes: [Stack<N>; LANES],
}

/// Lists of the taker per bucket. Twice as many as the shared ones: most entries of a bucket that
/// opens were re-filed into it, and more chains hide more of the memory's latency.
pub const OWN_LANES: usize = if IS_CHECKED { 1 } else { 16 };

/// A bucket's lists of the entries that its owner filed.
#[repr(align(64))]
pub struct OwnLanes<N> {
    heads: [AtomicPtr<N>; OWN_LANES],
}

// === impl Lanes ===

impl<N: Linked> Lanes<N> {
    /// Pushes `node` on lane `lane`, modulo the number of lanes; a caller that counts it up spreads
    /// its nodes evenly.
    ///
    /// # Errors
    /// The bucket is closed; the node is the caller's as before.
    ///
    /// # Safety
    /// As [`Stack::push`].
    #[inline]
    pub unsafe fn push(&self, node: NonNull<N>, lane: usize) -> Result<(), Closed> {
        // SAFETY: passed on to the caller.
        unsafe { self.lanes[lane % LANES].push(node) }
    }

    /// The lists, to be taken: all of them, also one that looks empty, because the CAS of its head
    /// is what makes a later push see the clock (BUCKET-ARM).
    #[inline]
    pub(super) fn each(&self) -> &[Stack<N>; LANES] {
        &self.lanes
    }

    /// One of the lists.
    pub fn lane(&self, lane: usize) -> &Stack<N> {
        &self.lanes[lane]
    }
}

/// Empty lists.
impl<N: Linked> Default for Lanes<N> {
    fn default() -> Lanes<N> {
        Lanes { lanes: array::from_fn(|_| Stack::default()) }
    }
}

debug! { impl[N] Lanes[N] {} }

// === impl OwnLanes ===

impl<N: Linked> OwnLanes<N> {
    /// Pushes `node` on lane `lane`, modulo their number; see [`Lanes::push`].
    ///
    /// # Safety
    /// The caller is the taker, holds the node alone (its link is written), and the node stays
    /// allocated until it is taken.
    #[inline]
    pub unsafe fn push(&self, node: NonNull<N>, lane: usize) {
        // SAFETY: passed on to the caller.
        unsafe { push_alone(&self.heads[lane % self.heads.len()], node) };
    }

    /// Takes everything: calls `show` with each lane's first node, which shows it where readers
    /// look next. Only the taker may call this.
    #[inline]
    pub(super) fn take(&self, mut show: impl FnMut(*mut N)) {
        for head in &self.heads {
            // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller.
            let first = head.load(Ordering::Relaxed);
            if !first.is_null() {
                show(first);
                // ORDER(BUCKET-READ): Release - pairs with the reader's Acquire of the head: a
                // reader that finds the lane empty finds the node that was shown.
                head.store(ptr::null_mut(), Ordering::Release);
            }
        }
    }

    /// Takes `node` out of a lane if it is the first one; `next` comes after it.
    ///
    /// # Safety
    /// The caller is the taker, `node` is in the lane, and its link leads to `next`.
    pub unsafe fn drop_first(&self, lane: usize, node: *mut N, next: *mut N) -> bool {
        drop_first_alone(&self.heads[lane], node, next)
    }

    /// The first node of a lane.
    pub fn first<'g>(&self, lane: usize, guard: Guard<'g>) -> Option<&'g N> {
        led_to(&self.heads[lane], guard)
    }

    /// The address of the first node of a lane, or null. Only the taker may call this.
    pub(crate) fn head(&self, lane: usize) -> *mut N {
        // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller.
        self.heads[lane].load(Ordering::Relaxed)
    }
}

/// Empty lists.
impl<N: Linked> Default for OwnLanes<N> {
    fn default() -> OwnLanes<N> {
        OwnLanes { heads: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }
}

debug! { impl[N] OwnLanes[N] {} }

// === Lists with one writer ===

/// Pushes `node` on a list of which the caller is the only writer.
///
/// # Safety
/// The caller holds the node alone (its link is written), and the node stays allocated until it is
/// taken out of the list.
#[inline]
pub(super) unsafe fn push_alone<N: Linked>(head: &AtomicPtr<N>, node: NonNull<N>) {
    // SAFETY: the caller holds the node, so it is allocated.
    let next = unsafe { node.as_ref() }.next();
    // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller. Release, also for the head
    // below - pairs with the reader's Acquire of the link and of the head: a reader that gets to a
    // node sees it as it was pushed.
    next.store(head.load(Ordering::Relaxed), Ordering::Release);
    head.store(node.as_ptr(), Ordering::Release);
}

/// Takes `node` out of such a list if it is the first one there; its link leads to `next`.
pub(super) fn drop_first_alone<N>(head: &AtomicPtr<N>, node: *mut N, next: *mut N) -> bool {
    // ORDER(BUCKET-READ): Relaxed - one writer, which is the caller. Release - pairs with the
    // reader's Acquire of the head: the reader sees the next node as it was pushed.
    let is_first = head.load(Ordering::Relaxed) == node;
    if is_first {
        head.store(next, Ordering::Release);
    }
    is_first
}
