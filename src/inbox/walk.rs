//! A walk goes through chains that were taken, side by side, without waiting for memory.
//!
//! *Owner*: the thread that took the chains; it holds every node in them.
//!
//! *Invariants*: a node's link is read before the node is handed out, so that the caller may free
//! the node or push it elsewhere. Readers do not see a walk; nodes that they must see are in a
//! `hand`. A SeqCst fence lies between the swap that takes a chain and the first node that is
//! handed out.
//!
//! *Orderings*: BUCKET-READ. A reader may stand on a node that was taken under it, and follow the
//! link that is written when the node is pushed again, perhaps on a list of another shard. The
//! pusher may have loaded a stale head of that list. Without the fence that link could lead to a
//! node that was freed before the reader came; `entry/reclaim.rs` has the argument.
//!
//! *Tested by*: `loom-tests/tests/{bucket_push,bucket_read}.rs`.

use std::ptr::{self, NonNull};

use crate::entry::Linked;
use crate::sync::{Ordering, fence, prefetch};

use super::{CHAINS, next_of};

/// Chains whose nodes are handed out, one from each chain in turn.
pub struct Walk<N> {
    /// The next node of each chain; the first `live` of them count.
    cursors: [*mut N; CHAINS],
    /// The chain of the next node.
    chain: usize,
    /// How many chains have nodes left.
    live: usize,
}

// SAFETY: a walk owns its nodes; sending it sends them.
unsafe impl<N: Send> Send for Walk<N> {}

// === impl Walk ===

impl<N: Linked> Walk<N> {
    /// A walk over at most [`CHAINS`] chains, each given by its first node or null. The iterator
    /// may take the lists as it goes on.
    ///
    /// # Safety
    /// The caller has taken the chains out of their lists, so that nobody else takes a node of
    /// them, and gives them to the walk. Each node stays allocated until it is handed out.
    #[inline]
    pub unsafe fn new(chains: impl Iterator<Item = *mut N>) -> Walk<N> {
        let mut walk = Walk { cursors: [ptr::null_mut(); CHAINS], chain: 0, live: 0 };
        for first in chains.filter(|first| !first.is_null()) {
            prefetch(first);
            walk.cursors[walk.live] = first;
            walk.live += 1;
        }
        // ORDER(BUCKET-READ): SeqCst - after the swaps, before anybody can have a node for
        // another push: as in `Hand::take`.
        fence(Ordering::SeqCst);
        walk
    }

    /// Whether every node was handed out.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.live == 0
    }

    /// Goes on to the chain after `chain`.
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

debug! { impl[N] Walk[N] { live = |this| this.live } }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::{Lanes, OwnLanes};
    use super::*;
    use crate::sync::{AtomicPtr, Ordering};

    struct Node {
        next: AtomicPtr<Node>,
        number: usize,
    }

    impl Linked for Node {
        fn next(&self) -> &AtomicPtr<Node> {
            &self.next
        }
    }

    fn nodes(n: usize) -> Vec<Node> {
        let node = |number| Node { next: AtomicPtr::new(ptr::null_mut()), number };
        (0..n).map(node).collect()
    }

    fn numbers(nodes: impl Iterator<Item = NonNull<Node>>) -> Vec<usize> {
        // SAFETY: the test's nodes outlive its walks.
        nodes.map(|node| unsafe { node.as_ref() }.number).collect()
    }

    /// Chains of these lengths through the nodes, in their order.
    fn chains(nodes: &[Node], lengths: &[usize]) -> Vec<*mut Node> {
        let mut rest = nodes;
        let chain = |&length| {
            let (these, others) = rest.split_at(length);
            rest = others;
            for pair in these.windows(2) {
                // ORDER: Relaxed - one thread.
                pair[0].next.store(ptr::from_ref(&pair[1]).cast_mut(), Ordering::Relaxed);
            }
            these.first().map_or(ptr::null_mut(), |first| ptr::from_ref(first).cast_mut())
        };
        lengths.iter().map(chain).collect()
    }

    #[test]
    fn a_walk_has_room_for_the_chains_of_a_bucket_and_no_more() {
        let (lanes, own) = (Lanes::<Node>::new(), OwnLanes::<Node>::new());
        assert_eq!(lanes.close().chain(own.take()).count(), CHAINS);
    }

    #[test]
    fn chains_hand_out_a_node_each_in_turn() {
        let nodes = nodes(9);
        // SAFETY: the chains are the test's own, and its nodes outlive the walk.
        let walk = unsafe { Walk::new(chains(&nodes, &[3, 0, 3, 3]).into_iter()) };
        assert_eq!(numbers(walk), [0, 3, 6, 1, 4, 7, 2, 5, 8]);
    }

    #[test]
    fn every_node_is_handed_out_once_whatever_the_lengths() {
        for lengths in [&[][..], &[0], &[1], &[5], &[1, 4, 2], &[4, 1, 1], &[1, 1, 6], &[1; CHAINS]]
        {
            let nodes = nodes(lengths.iter().sum());
            // SAFETY: the chains are the test's own, and its nodes outlive the walk.
            let mut walk = unsafe { Walk::new(chains(&nodes, lengths).into_iter()) };
            let mut all = numbers(walk.by_ref());
            assert!(walk.is_done() && walk.next().is_none(), "{lengths:?}");
            all.sort_unstable();
            assert!(all.into_iter().eq(0..nodes.len()), "{lengths:?}");
        }
    }
}
