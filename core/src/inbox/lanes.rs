//! Eight lists in a cache line: a bucket's inbox.
//!
//! A chain of cold nodes costs one memory latency per node, because the address of the next is
//! in the last. Eight chains side by side let the walker wait for eight of them at once, at the
//! price of nothing: the heads share the cache line that a push needs anyway.

use std::array;

use std::ptr::NonNull;

use crate::entry::Linked;
use crate::sync::IS_CHECKED;

use super::{Closed, Stack};

/// Lists of a bucket. Model checkers get two: enough for every race, few enough to finish.
pub const LANES: usize = if IS_CHECKED { 2 } else { 8 };

/// A bucket's lists. Pushers pick a lane; the taker always takes them all.
#[repr(align(64))]
pub struct Lanes<N> {
    lanes: [Stack<N>; LANES],
}

// === impl Lanes ===

impl<N: Linked> Lanes<N> {
    /// Empty lists.
    pub fn new() -> Lanes<N> {
        Lanes { lanes: array::from_fn(|_| Stack::new()) }
    }

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

    /// Takes `node` out of a lane, if it is the first; see [`Stack::drop_first`].
    pub fn drop_first(&self, lane: usize, node: *mut N, next: *mut N) -> bool {
        self.lanes[lane].drop_first(node, next)
    }

    /// The first node of a lane, for a reader under a guard.
    pub fn first(&self, lane: usize) -> *mut N {
        self.lanes[lane].first()
    }

    /// Each lane's first node, for a reader under a guard.
    pub fn firsts(&self) -> impl Iterator<Item = *mut N> + '_ {
        self.lanes.iter().map(Stack::first)
    }
}

impl<N: Linked> Default for Lanes<N> {
    fn default() -> Lanes<N> {
        Lanes::new()
    }
}

debug! { impl[N] Lanes[N] {} }
