//! What magazines carry: seats, and memory that is free.
//!
//! *Owner*: the thread that has one is the only holder of its entry.

use std::ptr::NonNull;

use crate::entry::Entry;
use crate::sync::IS_CHECKED;
use crate::time::Tick;

/// Seats in a stock, and in a magazine of seats.
pub const SEATS: usize = if IS_CHECKED { 2 } else { 32 };

/// Entries in a full magazine of memory at most, and their bytes, unless one has more.
const MOST: usize = 64;
const MOST_BYTES: usize = 64 << 10;

/// Entries in a full magazine of memory.
pub(super) const fn magazine<T>() -> usize {
    let fit = MOST_BYTES / size_of::<Entry<T>>();
    match fit {
        _ if IS_CHECKED => 2,
        0 => 1,
        MOST.. => MOST,
        _ => fit,
    }
}

/// A kept vacancy, and the earliest deadline that its bucket can serve.
pub(crate) struct Seat<T> {
    pub(crate) entry: NonNull<Entry<T>>,
    pub(crate) opens: Tick,
}

// SAFETY: a seat has no payload, and the thread that has the `Seat` is the vacancy's producer.
unsafe impl<T: Send> Send for Seat<T> {}

/// Memory of an entry that nobody else holds.
pub struct Memory<T>(pub(super) NonNull<Entry<T>>);

// SAFETY: it is memory without a payload, and the `Memory` alone holds it.
unsafe impl<T: Send> Send for Memory<T> {}

// === impl Memory ===

impl<T> Memory<T> {
    /// The memory of `entry`.
    ///
    /// # Safety
    /// The caller alone holds the entry, whose payload is out, and gives it up.
    pub unsafe fn new(entry: NonNull<Entry<T>>) -> Memory<T> {
        Memory(entry)
    }

    /// The entry whose memory it is.
    pub fn entry(&self) -> NonNull<Entry<T>> {
        self.0
    }
}

debug! { impl[T] Memory[T] {} }
