//! Going through chains that were taken, side by side, without waiting for memory.
//!
//! *Owner*: the thread that took the chains; it holds every node in them.
//!
//! *Invariants*: a node's link is read before the node is handed out, so that the caller may
//! free it or push it elsewhere. A walk may be put aside and resumed, and says when it is done.

use std::fmt;
use std::iter;
use std::ptr::{self, NonNull};

use crate::entry::Linked;
use crate::sync::{Ordering, prefetch};

use super::{LANES, OWN_LANES, next_of};

/// The most chains that a walk goes through: all of a bucket's.
const CHAINS: usize = LANES + OWN_LANES;

/// Chains on the way to be handed out, one node from each in turn.
pub struct Walk<N> {
    /// The next node of each chain; the first `live` of them count.
    cursors: [*mut N; CHAINS],
    /// Whose turn it is.
    chain: usize,
    /// How many chains have nodes left.
    live: usize,
}

// SAFETY: a walk owns its nodes; sending it sends them.
unsafe impl<N: Send> Send for Walk<N> {}

// === impl Walk ===

impl<N: Linked> Walk<N> {
    /// A walk over chains that nobody else holds, each given by its first node or null. There
    /// are at most as many as a bucket has.
    #[inline]
    pub fn new(chains: impl Iterator<Item = *mut N>) -> Walk<N> {
        let mut walk = Walk::empty();
        walk.restart(chains);
        walk
    }

    /// Begins anew, as [`Walk::new`]: the walk is done and stays where it is.
    #[inline]
    pub fn restart(&mut self, chains: impl Iterator<Item = *mut N>) {
        debug_assert!(self.is_done(), "what is left in a walk would be lost");
        self.chain = 0;
        for first in chains.filter(|first| !first.is_null()) {
            prefetch(first);
            self.cursors[self.live] = first;
            self.live += 1;
        }
    }

    /// A walk over nothing.
    #[inline]
    pub fn empty() -> Walk<N> {
        Walk { cursors: [ptr::null_mut(); CHAINS], chain: 0, live: 0 }
    }

    /// Adds a node that the walk's owner holds alone; it is handed out in its turn.
    ///
    /// # Safety
    /// The caller holds the node, and leaves it to the walk.
    pub unsafe fn add(&mut self, node: NonNull<N>) {
        let chain = if self.live < CHAINS { self.live } else { self.chain };
        let rest = if self.live < CHAINS { ptr::null_mut() } else { self.cursors[chain] };
        // SAFETY: the caller holds it.
        let link = unsafe { node.as_ref() }.next();
        // ORDER(BUCKET-READ): Release - pairs with the reader's Acquire of the link.
        link.store(rest, Ordering::Release);
        self.cursors[chain] = node.as_ptr();
        self.live = self.live.max(chain + 1);
        self.step(chain);
    }

    /// Whether every node was handed out.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.live == 0
    }

    /// The nodes that are still to be handed out, left where they are: for checks.
    pub fn rest(&self) -> impl Iterator<Item = NonNull<N>> + '_ {
        self.cursors[..self.live].iter().flat_map(|&cursor| {
            iter::successors(NonNull::new(cursor), |node| {
                // SAFETY: the walk holds the node until it hands it out.
                NonNull::new(next_of(unsafe { node.as_ref() }))
            })
        })
    }

    /// Makes it the turn of the chain after `chain`.
    #[inline]
    fn step(&mut self, chain: usize) {
        self.chain = if chain + 1 < self.live { chain + 1 } else { 0 };
    }
}

impl<N: Linked> Iterator for Walk<N> {
    type Item = NonNull<N>;

    #[inline]
    fn next(&mut self) -> Option<NonNull<N>> {
        if self.live == 0 {
            return None;
        }
        let chain = self.chain;
        let node = NonNull::new(self.cursors[chain]).expect("a live chain has a node");
        // SAFETY: the walk holds the node until it hands it out.
        let next = next_of(unsafe { node.as_ref() });
        prefetch(next);
        if next.is_null() {
            // The last chain takes the place of the one that ended.
            self.live -= 1;
            self.cursors[chain] = self.cursors[self.live];
        } else {
            self.cursors[chain] = next;
        }
        self.step(chain);
        Some(node)
    }
}

impl<N> fmt::Debug for Walk<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("live", &self.live).finish_non_exhaustive()
    }
}
