//! The list of half-free blocks.
//!
//! *Owner*: one thread at a time, which has the list and the blocks in it.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::super::Entry;
use super::{Block, Header};

/// Blocks that are listed, which its owner has. Each may leave from where it is.
pub struct BlockList<T> {
    first: Option<NonNull<Header>>,
    last: Option<NonNull<Header>>,
    count: usize,
    entries: PhantomData<*mut Entry<T>>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Links {
    before: Option<NonNull<Header>>,
    after: Option<NonNull<Header>>,
}

// === impl BlockList ===

// SAFETY: the list's owner has the blocks in it; a block may be sent.
unsafe impl<T: Send> Send for BlockList<T> {}

impl<T> BlockList<T> {
    /// A list of nothing.
    pub const fn empty() -> BlockList<T> {
        BlockList { first: None, last: None, count: 0, entries: PhantomData }
    }

    /// How many blocks there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds a block in front.
    ///
    /// # Safety
    /// The block is listed, and on no list.
    pub unsafe fn push(&mut self, block: Block<T>) {
        let links = Links { before: None, after: self.first };
        set_links(block.header, |to| *to = links);
        match self.first.replace(block.header) {
            Some(second) => set_links(second, |links| links.before = self.first),
            None => self.last = self.first,
        }
        self.count += 1;
    }

    /// Takes the first block off the list.
    pub fn pop(&mut self) -> Option<Block<T>> {
        let first = Block { header: self.first?, entries: PhantomData };
        // SAFETY: it is on this list.
        unsafe { self.remove(first) };
        Some(first)
    }

    /// Takes the last block off the list.
    pub fn pop_last(&mut self) -> Option<Block<T>> {
        let last = Block { header: self.last?, entries: PhantomData };
        // SAFETY: it is on this list.
        unsafe { self.remove(last) };
        Some(last)
    }

    /// Takes a block off the list.
    ///
    /// # Safety
    /// The block is on this list.
    pub unsafe fn remove(&mut self, block: Block<T>) {
        // SAFETY: a block that is listed stays until it is off its list; the links are the list's.
        let links = unsafe { block.header.as_ref() }.links.with(|links| unsafe { *links });
        match links.before {
            Some(before) => set_links(before, |it| it.after = links.after),
            None => self.first = links.after,
        }
        match links.after {
            Some(after) => set_links(after, |it| it.before = links.before),
            None => self.last = links.before,
        }
        self.count -= 1;
    }
}

/// Changes the links of a block that is listed, for the owner of the list.
fn set_links(header: NonNull<Header>, change: impl FnOnce(&mut Links)) {
    // SAFETY: a block that is listed stays until it is off its list, and its links are the list's.
    unsafe { header.as_ref() }.links.with_mut(|links| change(unsafe { &mut *links }));
}

debug! { impl[T] BlockList[T] { count = |this| this.count() } }
