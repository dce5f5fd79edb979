//! Guards: the right to look at what lists, trays and tables lead to.
//!
//! *Owner*: any thread. It has a guard as long as it is a [`Reader`], or as long as it has the
//! owner's lock of a shard, for what is in that shard.

use std::marker::PhantomData;

use super::Reader;

/// What each walk asks for: as long as `'g`, nothing that it comes across is given back to the
/// allocator.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'g>(PhantomData<&'g ()>);

// === impl Guard ===

impl<'g> Guard<'g> {
    /// A guard for what the caller knows to stay.
    ///
    /// # Safety
    /// As long as `'g`, nothing is given back to the allocator that a walk comes across under this
    /// guard.
    #[inline]
    pub unsafe fn assume() -> Guard<'g> {
        Guard(PhantomData)
    }
}

// === impl Reader ===

impl Reader {
    /// The reader's guard.
    #[inline]
    pub fn guard(&self) -> Guard<'_> {
        Guard(PhantomData)
    }
}
