//! Walks: the nodes of a chain, one after the other, for a thread that takes none of them out.
//!
//! *Owner*: any thread with a [`Guard`]. Under a reader's guard the chain may change meanwhile, and
//! a node may have been pushed elsewhere when its link is read: what such a reader makes of that is
//! in `tray` and in the shard's `scan`. Under the guard of the owner nodes stay where they are.
//!
//! *Orderings*: BUCKET-READ.

use std::iter::FusedIterator;

use crate::entry::{Guard, Linked};
use crate::sync::{AtomicPtr, Ordering};

/// The nodes of a chain, each of which is found by the link of the one before.
#[derive(Debug)]
pub struct Walk<'g, N> {
    next: Option<&'g N>,
    guard: Guard<'g>,
}

/// What a head, a cursor or a link of a list leads to.
#[inline]
pub(crate) fn led_to<'g, N>(from: &AtomicPtr<N>, _guard: Guard<'g>) -> Option<&'g N> {
    // ORDER(BUCKET-READ): Acquire - pairs with the Release of the thread that wrote it: the node is
    // visible as it was pushed; and if that was for another use of it, so is all that was done
    // before. Acquire also orders this before the loads that come next.
    let node = from.load(Ordering::Acquire);
    // SAFETY: it is null, or a node that a list led to under the guard.
    unsafe { node.as_ref() }
}

/// The node behind this one.
#[inline]
pub fn behind<'g, N: Linked>(node: &'g N, guard: Guard<'g>) -> Option<&'g N> {
    led_to(node.next(), guard)
}

// === impl Walk ===

impl<'g, N> Walk<'g, N> {
    /// From `first` on.
    pub fn from(first: Option<&'g N>, guard: Guard<'g>) -> Walk<'g, N> {
        Walk { next: first, guard }
    }
}

impl<'g, N: Linked> Iterator for Walk<'g, N> {
    type Item = &'g N;

    fn next(&mut self) -> Option<&'g N> {
        let node = self.next?;
        self.next = behind(node, self.guard);
        Some(node)
    }
}

impl<N: Linked> FusedIterator for Walk<'_, N> {}
