//! A timer of the other contenders: one allocation, with what the thread that has the lock needs.

use std::ptr::NonNull;

use tickless_sync::{AtomicU64, Ordering, UnsafeCell};

/// One timer. As in tokio, a word tells how it ended without the lock; the rest is under the lock.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Node {
    /// [`PENDING`], or how it ended.
    state: AtomicU64,
    pub(crate) filed: UnsafeCell<Filed>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Filed {
    pub(crate) deadline: u64,
    /// Where it is: an index of the heap, or a slot of the wheel.
    pub(crate) place: usize,
    /// The neighbours in the slot.
    pub(crate) before: Link,
    pub(crate) after: Link,
    pub(crate) is_detached: bool,
}

pub(crate) type Link = Option<NonNull<Node>>;

const PENDING: u64 = 0;
const FIRED: u64 = 1;

/// The caller's end of a timer, with the shard that it belongs to.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) node: NonNull<Node>,
    pub(crate) shard: usize,
}

// SAFETY: what a node has is atomic, or touched under the lock of its shard alone.
unsafe impl Send for Handle {}

impl Node {
    pub(crate) fn allocate(deadline: u64, is_detached: bool) -> NonNull<Node> {
        let filed = Filed { deadline, place: 0, before: None, after: None, is_detached };
        let node = Node { state: AtomicU64::new(PENDING), filed: UnsafeCell::new(filed) };
        let node = NonNull::from(Box::leak(Box::new(node)));
        // SAFETY: it is ours alone. What makes it is a write, which a constructor does not tell of.
        unsafe { node.as_ref() }.change(|filed| filed.deadline = deadline);
        node
    }

    /// What is filed, for the thread that has the lock.
    pub(crate) fn look(&self) -> Filed {
        // SAFETY: the callers have the lock of the node's shard, or the node alone.
        self.filed.with(|filed| unsafe { *filed })
    }

    /// The same, to be changed.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Filed)) {
        // SAFETY: as in `look`.
        self.filed.with_mut(|filed| change(unsafe { &mut *filed }));
    }

    /// It is due, and out of the structure: what is detached is freed.
    ///
    /// # Safety
    /// The caller has the lock, and forgets the node.
    pub(crate) unsafe fn fire(node: NonNull<Node>) {
        // SAFETY: it was in the structure until now.
        let this = unsafe { node.as_ref() };
        this.state.store(FIRED, Ordering::Release);
        if this.look().is_detached {
            // SAFETY: nobody else has it.
            unsafe { Node::free(node) };
        }
    }

    /// # Safety
    /// The caller alone has the node.
    pub(crate) unsafe fn free(node: NonNull<Node>) {
        // SAFETY: it came from a box.
        drop(unsafe { Box::from_raw(node.as_ptr()) });
    }
}
