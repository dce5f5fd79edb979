//! Going through chains that were taken, side by side, without waiting for memory.
//!
//! *Owner*: the thread that took the chains; it holds every node in them.
//!
//! *Invariants*: a node's link is read before the node is handed out, so that the caller may
//! free it or push it elsewhere. A walk may be put aside and resumed, and says when it is done.
//! Between the swap that takes a chain and the first node that is handed out lies a SeqCst fence.
//!
//! *Orderings*: BUCKET-READ. A reader may stand on a node that was taken under it, and follows the
//! link that is written when the node is pushed again, perhaps on a list of another shard, whose
//! head its pusher may have loaded long after it changed. Without the fence that link could lead
//! to a node that was freed before the reader came; `entry/reclaim.rs` has the argument.
//!
//! *Tested by*: `loom-tests/tests/{bucket_push,bucket_read}.rs`.

use std::fmt;
use std::iter;
use std::ptr::{self, NonNull};

use crate::entry::Linked;
use crate::sync::{Ordering, fence, prefetch};

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
    /// A walk over chains, each given by its first node or null. There are at most as many as a
    /// bucket has. The lists may be taken as the iterator goes on.
    ///
    /// # Safety
    /// The caller has taken the chains out of their lists, so that nobody else takes a node of
    /// them, and leaves them to the walk. Each node stays allocated until it is handed out.
    #[inline]
    pub unsafe fn new(chains: impl Iterator<Item = *mut N>) -> Walk<N> {
        let mut walk = Walk::empty();
        // SAFETY: passed on to the caller.
        unsafe { walk.restart(chains) };
        walk
    }

    /// Begins anew, as [`Walk::new`]: the walk is done and stays where it is.
    ///
    /// # Safety
    /// As [`Walk::new`].
    #[inline]
    pub unsafe fn restart(&mut self, chains: impl Iterator<Item = *mut N>) {
        debug_assert!(self.is_done(), "what is left in a walk would be lost");
        self.chain = 0;
        for first in chains.filter(|first| !first.is_null()) {
            prefetch(first);
            self.cursors[self.live] = first;
            self.live += 1;
        }
        // ORDER(BUCKET-READ): SeqCst - after the swaps, before anybody can have a node for
        // another push: pairs with the fences of a retirement and of a reader's pin. Whoever
        // pushes one of these nodes again finds no head that was taken away before a retirement
        // that came before a reader who stands on it.
        fence(Ordering::SeqCst);
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
        // ORDER(BUCKET-READ): Release - pairs with the reader's Acquire of the link: whoever
        // follows it sees no older link of the node behind it, which may lead to freed memory.
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::{Lanes, OwnLanes};
    use super::*;
    use crate::sync::AtomicPtr;

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
        assert_eq!(lanes.take().chain(own.take()).count(), CHAINS);
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
            for handed_out in 0..nodes.len() {
                assert!(!walk.is_done());
                assert_eq!(walk.rest().count(), nodes.len() - handed_out);
                let next = walk.next().expect("some are left");
                // SAFETY: as in `numbers`.
                let number = unsafe { next.as_ref() }.number;
                assert!(!numbers(walk.rest()).contains(&number), "{number} is handed out");
            }
            assert!(walk.is_done() && walk.next().is_none(), "{lengths:?}");
        }
    }

    #[test]
    fn what_is_added_is_handed_out_as_well_also_when_all_chains_are_taken() {
        let nodes = nodes(3 * CHAINS);
        let (given, added) = nodes.split_at(5);
        // SAFETY: the chains are the test's own, and its nodes outlive the walk.
        let mut walk = unsafe { Walk::new(chains(given, &[2, 3]).into_iter()) };
        for (count, node) in (6..).zip(added) {
            // SAFETY: it is in no chain yet.
            unsafe { walk.add(NonNull::from(node)) };
            assert_eq!(walk.live, (count - 3).min(CHAINS), "a chain of its own while there is one");
            assert_eq!(walk.rest().count(), count);
        }
        // They are spread evenly: those that wait longest are not behind all others.
        let longest = walk.cursors.iter().map(|&first| {
            let next = |node: &NonNull<Node>| {
                // SAFETY: as in `numbers`.
                NonNull::new(next_of(unsafe { node.as_ref() }))
            };
            iter::successors(NonNull::new(first), next).count()
        });
        assert!(longest.max() <= Some(5));
        let mut all = numbers(walk);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..3 * CHAINS));
    }

    #[test]
    fn what_is_added_in_the_place_of_a_chain_that_ended_stands_alone() {
        let nodes = nodes(5);
        let (given, added) = nodes.split_at(3);
        // SAFETY: the chains are the test's own, and its nodes outlive the walk.
        let mut walk = unsafe { Walk::new(chains(given, &[1, 1, 1]).into_iter()) };
        assert!(walk.next().is_some() && walk.next().is_some());
        for (left, node) in (2..).zip(added) {
            // SAFETY: it is in no chain.
            unsafe { walk.add(NonNull::from(node)) };
            assert_eq!(walk.rest().count(), left);
        }
        assert_eq!(numbers(walk).len(), 3);
    }
}
