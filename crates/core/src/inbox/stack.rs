//! A push-only lock-free list: push one node, take all, close for ever.
//!
//! *Owner*: any thread pushes. One taker takes and closes. (A second taker could reopen a closed
//! list: it would take the mark for a node.)
//!
//! *Invariants*: a node is in one list at most. Once closed, nothing gets in.
//!
//! *Orderings*: BUCKET-PUSH (and BUCKET-ARM, BUCKET-READ, STOP, which build on it).
//!
//! *Tested by*: `loom-tests/tests/{bucket_push,stop}.rs`.

use std::ptr::{self, NonNull};

use crate::entry::{Guard, Linked};
use crate::sync::{AtomicPtr, Ordering};

/// A list head: null, a chain of nodes, or closed.
pub struct Stack<N> {
    head: AtomicPtr<N>,
}

/// The list is closed, so nothing can be pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// The head of a closed list: an address where no node can be.
#[inline]
fn closed<N>() -> *mut N {
    ptr::without_provenance_mut(1)
}

// === impl Stack ===

impl<N: Linked> Stack<N> {
    /// Pushes `node`.
    ///
    /// # Errors
    /// The list is closed; the caller keeps the node.
    ///
    /// # Safety
    /// The caller holds the node alone (its link is written), and the node stays allocated until it
    /// is taken, and as long as a guard under which it was found.
    #[inline]
    pub unsafe fn push(&self, node: NonNull<N>) -> Result<(), Closed> {
        // SAFETY: the caller holds the node, so it is allocated.
        let next = unsafe { node.as_ref() }.next();
        // ORDER(BUCKET-READ): Acquire - a reader that follows our link must see that node as its
        // pusher left it: acquired here, passed on by our Release.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            if head == closed() {
                return Err(Closed);
            }
            // ORDER(BUCKET-READ): Release - pairs with the reader's Acquire of the link.
            next.store(head, Ordering::Release);
            // ORDER(BUCKET-PUSH, BUCKET-ARM): AcqRel - Release pairs with `take` and publishes the
            // node's fields; Acquire pairs with the release half of `take`, so that a push after a
            // flush sees the clock that the flush stored before.
            match self.head.compare_exchange_weak(
                head,
                node.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    /// Shows the first node of the chain where readers look next, then takes the whole chain.
    /// Returns whether there was a node. Calls `show` again if another thread pushes meanwhile.
    ///
    /// Only the taker that also closes may call this, and not after closing.
    #[inline]
    pub(crate) fn take(&self, mut show: impl FnMut(*mut N)) -> bool {
        // ORDER(BUCKET-READ): Acquire, also where the CAS fails - the node that is shown was pushed
        // by another thread.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            debug_assert!(head != closed(), "the taker that closed takes no more");
            if !head.is_null() {
                show(head);
            }
            // ORDER(BUCKET-PUSH, BUCKET-ARM, BUCKET-READ): AcqRel, also if there is nothing to take
            // - Acquire pairs with every push in the chain; Release: a later push sees the clock
            // that we stored before, and a reader that finds the list empty finds the node that
            // was shown.
            match self.head.compare_exchange(
                head,
                ptr::null_mut(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return !head.is_null(),
                Err(now) => head = now,
            }
        }
    }

    /// Takes `node` out of the list if it is the first one; `next` comes after it.
    ///
    /// Only the taker may call this, so that the nodes in the list stay in it meanwhile.
    pub(crate) fn drop_first(&self, node: *mut N, next: *mut N) -> bool {
        // ORDER(BUCKET-READ): AcqRel - a reader of the head sees the next node, and what was pushed
        // before stays visible; Relaxed: another thread pushed on top.
        self.head.compare_exchange(node, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes the whole chain and refuses every later push. Closing again takes nothing.
    pub(crate) fn close(&self) -> *mut N {
        // ORDER(STOP): AcqRel - as `take`: earlier pushes are ours, later ones are refused,
        // and there is nothing in between.
        let head = self.head.swap(closed(), Ordering::AcqRel);
        if head == closed() { ptr::null_mut() } else { head }
    }

    /// The first node.
    #[inline]
    pub fn first<'g>(&self, _guard: Guard<'g>) -> Option<&'g N> {
        // SAFETY: a list led to it, under the guard.
        unsafe { self.head().as_ref() }
    }

    /// The address of the first node, or null.
    #[inline]
    pub(crate) fn head(&self) -> *mut N {
        // ORDER(BUCKET-READ): Acquire - pairs with the push that put it there.
        let head = self.head.load(Ordering::Acquire);
        if head == closed() { ptr::null_mut() } else { head }
    }

    /// Whether there was nothing to take when the head was read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // ORDER(DOORBELL): Relaxed - the caller's fence orders it after what the caller published.
        let head = self.head.load(Ordering::Relaxed);
        head.is_null() || head == closed()
    }
}

/// The node after `node` in a chain that was taken. Must be read before `node` is released.
#[inline]
pub(crate) fn next_of<N: Linked>(node: &N) -> *mut N {
    // ORDER(BUCKET-PUSH): Relaxed - the take acquired every push in the chain.
    node.next().load(Ordering::Relaxed)
}

/// An empty list.
impl<N: Linked> Default for Stack<N> {
    fn default() -> Stack<N> {
        Stack { head: AtomicPtr::new(ptr::null_mut()) }
    }
}

debug! { impl[N] Stack[N] {} }
