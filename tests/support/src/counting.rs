//! An allocator that counts: what each thread allocates, and what lives in all.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

use tickless_core::entry::after_readers;

/// Size and alignment of a block of entries, which has a header beside them, and how many it has.
const ENTRY_BLOCK: (usize, usize) = if cfg!(asan) { (128, 64) } else { (4096, 64) };
const PER_BLOCK: i64 = if cfg!(asan) { 1 } else { 63 };

/// The system's allocator, counting.
pub struct Counting;

/// What lives, over all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    pub blocks: i64,
    pub bytes: i64,
    /// Entries, which come in blocks: nothing else here is aligned like that and as large.
    pub entries: i64,
    /// What these blocks take.
    pub entry_bytes: i64,
}

static BLOCKS: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);
static ENTRIES: AtomicI64 = AtomicI64::new(0);

/// What the calling thread did. (The test harness has a thread of its own, which allocates as it
/// likes.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    /// Blocks that it has allocated.
    pub made: u64,
    /// The bytes that it has allocated, less those that it has freed: what it owns, if it hands
    /// nothing over.
    pub bytes: i64,
}

thread_local! {
    static HERE: Cell<Here> = const { Cell::new(Here { made: 0, bytes: 0 }) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// How often the calling thread has called the allocator: to take memory, and to give it back.
pub fn calls_here() -> u64 {
    CALLS.get()
}

/// What the calling thread did so far.
pub fn here() -> Here {
    HERE.get()
}

/// How many blocks the calling thread has allocated.
pub fn made_here() -> u64 {
    here().made
}

/// What lives now.
pub fn live() -> Live {
    let [blocks, bytes, entries] = [&BLOCKS, &BYTES, &ENTRIES].map(|n| n.load(Ordering::SeqCst));
    let entry_bytes = entries / PER_BLOCK * ENTRY_BLOCK.0 as i64;
    Live { blocks, bytes, entries, entry_bytes }
}

/// Lets the epoch move on until it has nothing left to free. (It moves on by at most one step
/// each time that somebody comes by, and frees what is two steps old.)
pub fn free_what_waits_for_readers() {
    let mut before = live();
    let mut unchanged = 0;
    while unchanged < 16 {
        // SAFETY: it frees nothing.
        unsafe { after_readers(|| ()) };
        unchanged = if live() == before { unchanged + 1 } else { 0 };
        before = live();
    }
}

fn count(layout: Layout, sign: i64) {
    BLOCKS.fetch_add(sign, Ordering::SeqCst);
    BYTES.fetch_add(sign * layout.size() as i64, Ordering::SeqCst);
    CALLS.set(CALLS.get() + 1);
    let made = made_here() + u64::from(sign > 0);
    HERE.set(Here { made, bytes: here().bytes + sign * layout.size() as i64 });
    if (layout.size(), layout.align()) == ENTRY_BLOCK {
        ENTRIES.fetch_add(sign * PER_BLOCK, Ordering::SeqCst);
    }
}

// SAFETY: everything is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    /// # Safety
    /// As the trait says.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// As the trait says.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(block, layout) };
    }
}
