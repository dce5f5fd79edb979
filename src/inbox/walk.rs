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

use super::{LANES, next_of};

/// Chains on the way to be handed out, one node from each in turn.
pub struct Walk<N> {
    cursors: [*mut N; LANES],
    lane: usize,
    /// How many lanes have nodes left.
    live: usize,
}

// SAFETY: a walk owns its nodes; sending it sends them.
unsafe impl<N: Send> Send for Walk<N> {}

// === impl Walk ===

impl<N: Linked> Walk<N> {
    /// A walk over chains that nobody else holds.
    pub fn new(cursors: [*mut N; LANES]) -> Walk<N> {
        for cursor in cursors {
            prefetch(cursor);
        }
        let live = cursors.iter().filter(|cursor| !cursor.is_null()).count();
        Walk { cursors, lane: 0, live }
    }

    /// A walk over nothing.
    pub fn empty() -> Walk<N> {
        Walk { cursors: [ptr::null_mut(); LANES], lane: 0, live: 0 }
    }

    /// Adds a node that the walk's owner holds alone; it is handed out in its turn.
    ///
    /// # Safety
    /// The caller holds the node, and leaves it to the walk.
    pub unsafe fn add(&mut self, node: NonNull<N>) {
        let cursor = &mut self.cursors[self.lane];
        self.live += usize::from(cursor.is_null());
        // SAFETY: the caller holds it.
        let link = unsafe { node.as_ref() }.next();
        // ORDER(BUCKET-READ): Release - pairs with the reader's Acquire of the link.
        link.store(*cursor, Ordering::Release);
        *cursor = node.as_ptr();
        self.lane = (self.lane + 1) % LANES;
    }

    /// Whether every node was handed out.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.live == 0
    }

    /// The nodes that are still to be handed out, left where they are: for checks.
    pub fn rest(&self) -> impl Iterator<Item = NonNull<N>> + '_ {
        self.cursors.iter().flat_map(|&cursor| {
            iter::successors(NonNull::new(cursor), |node| {
                // SAFETY: the walk holds the node until it hands it out.
                NonNull::new(next_of(unsafe { node.as_ref() }))
            })
        })
    }
}

impl<N: Linked> Iterator for Walk<N> {
    type Item = NonNull<N>;

    #[inline]
    fn next(&mut self) -> Option<NonNull<N>> {
        if self.live == 0 {
            return None;
        }
        loop {
            let lane = self.lane;
            self.lane = (lane + 1) % LANES;
            let Some(node) = NonNull::new(self.cursors[lane]) else { continue };
            // SAFETY: the walk holds the node until it hands it out.
            let next = next_of(unsafe { node.as_ref() });
            prefetch(next);
            self.cursors[lane] = next;
            self.live -= usize::from(next.is_null());
            return Some(node);
        }
    }
}

impl<N> fmt::Debug for Walk<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("live", &self.live).finish_non_exhaustive()
    }
}
