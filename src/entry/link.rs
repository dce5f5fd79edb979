//! What a node needs to stand in a lock-free list.

use crate::sync::AtomicPtr;

/// A node of an intrusive list: it carries the pointer to the next one itself.
pub trait Linked: Sized {
    /// The link. Written by the thread that pushes the node, read by the one that took the list
    /// (and, for entries, by readers under a guard, who must expect it to change).
    fn next(&self) -> &AtomicPtr<Self>;
}
