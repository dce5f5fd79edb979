//! A block: the memory of several entries, allocated and freed as one.
//!
//! Allocators are slow at aligned memory, and waste some for each piece. So entries come in blocks,
//! with a header that says which of them were given back. An entry knows its own place in the
//! block, and finds the header from there. The header's place differs from block to block: at equal
//! places, all headers would share a few sets of the processor's caches.
//!
//! *Owner*: each entry that was not given back has holders of its own. The thread that gives the
//! last one back has the whole block and frees it, unless the block is *listed*. Then the owner of
//! the list has it: it takes the free entries for new timers, or finds it whole and frees it.
//!
//! *Invariant*: a block is freed only when no reader can see one of its entries any more. An entry
//! that was given back may serve the next timer at once, under a reader's eyes.
//!
//! *Orderings*: BLOCK.
//!
//! *Tested by*: `loom-tests/tests/block.rs`.

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::sync::{self, AtomicU64, Life, Ordering, UnsafeCell, prefetch};

use super::Entry;
use super::node::Position;

/// The largest size of a block, a page, unless one entry needs more. One entry in use keeps all of
/// it.
const SIZE: usize = 4096;

/// The bit of a block that is listed; the bits below it tell which entries were given back.
const LISTED: u64 = 1 << 63;

/// Listed blocks that are looked at in an idle moment.
const PROBES: usize = 64;

/// Entries that a block has at most.
const MOST: usize = 63;

/// The memory of several entries. A copy is another pointer to it.
pub struct Block<T> {
    header: NonNull<Header>,
    entries: PhantomData<*mut Entry<T>>,
}

struct Header {
    /// Which entries were given back, and whether the block is listed.
    free: AtomicU64,
    /// Its index in the list, while it is listed.
    index: UnsafeCell<usize>,
    capacity: u8,
    /// The entry that comes next after the header.
    at: u8,
    life: Life,
}

/// The blocks that are listed. One thread at a time owns the list, and may take any block out.
pub struct BlockList<T> {
    blocks: Vec<Block<T>>,
    /// Blocks at the beginning of the list that are to be looked at.
    pub unseen: usize,
}

/// What became of a block when entries were given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Others have it.
    Kept,
    /// It is listed now: the caller puts it on the list.
    Listed,
    /// It is listed, and whole now: the owner of the list frees it.
    WholeInList,
    /// The caller has all of it, and frees it.
    Whole,
}

// SAFETY: a block is atomic or never changes, except the index, which is the list's owner's.
unsafe impl<T: Send> Send for Block<T> {}
// SAFETY: a block is atomic or never changes, except the index.
unsafe impl<T: Send> Sync for Block<T> {}

impl<T> Clone for Block<T> {
    fn clone(&self) -> Block<T> {
        *self
    }
}

impl<T> Copy for Block<T> {}

impl<T> PartialEq for Block<T> {
    fn eq(&self, other: &Block<T>) -> bool {
        self.header == other.header
    }
}

// === impl Block ===

impl<T> Block<T> {
    /// Entries in a block, if nothing else is asked for.
    pub const CAPACITY: usize = {
        let fit = SIZE.saturating_sub(Self::HEADER) / Self::ENTRY;
        if fit == 0 {
            1
        } else if fit > MOST {
            MOST
        } else {
            fit
        }
    };

    const ENTRY: usize = size_of::<Entry<T>>();
    const HEADER: usize = size_of::<Header>().next_multiple_of(align_of::<Entry<T>>());

    /// A new block of `capacity` free entries for timers of `engine`, which are all the caller's.
    /// Blocks of different `colour` have their headers in different places.
    pub fn allocate(engine: u32, capacity: usize, colour: usize) -> Block<T> {
        assert!((1..=MOST).contains(&capacity), "{capacity} entries in a block");
        let (layout, at) = (Self::layout(capacity), colour % (capacity + 1));
        // SAFETY: the layout is not empty.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        let header = Header {
            free: AtomicU64::new(0),
            index: UnsafeCell::new(0),
            capacity: capacity as u8,
            at: at as u8,
            life: Life::begin(),
        };
        // SAFETY: the layout has room for the header after `at` entries.
        let place = unsafe { start.add(at * Self::ENTRY) }.cast::<Header>();
        // SAFETY: the place is in the layout, and nobody else has the memory.
        unsafe { place.write(header) };
        let block = Block { header: place, entries: PhantomData };
        for number in 0..capacity {
            let position = Position { number: number as u8, header: at as u8 };
            // SAFETY: the layout has so many entries, and nobody else has the memory.
            unsafe { block.entry(number).write(Entry::new(engine, position)) };
        }
        block
    }

    /// The block that `entry` lies in.
    ///
    /// # Safety
    /// The entry is allocated.
    #[inline]
    pub unsafe fn of(entry: NonNull<Entry<T>>) -> Block<T> {
        // SAFETY: passed on to the caller.
        let Position { number, header } = unsafe { entry.as_ref() }.position();
        let distance = distance::<T>(usize::from(number), usize::from(header));
        // SAFETY: the entry was written at this distance from its header.
        let header = unsafe { entry.byte_offset(-distance) }.cast();
        Block { header, entries: PhantomData }
    }

    /// The entry of this number.
    fn entry(self, number: usize) -> NonNull<Entry<T>> {
        // SAFETY: the header stays while somebody has one of its entries.
        let at = usize::from(unsafe { self.header.as_ref() }.at);
        // SAFETY: the block has room for the entry at this distance from its header.
        unsafe { self.header.byte_offset(distance::<T>(number, at)) }.cast()
    }

    /// All of its entries.
    ///
    /// # Safety
    /// The caller has one of them, or the block, which is not freed before the iteration is over.
    pub unsafe fn entries(self) -> impl Iterator<Item = NonNull<Entry<T>>> {
        // SAFETY: passed on to the caller.
        let capacity = unsafe { self.header.as_ref() }.capacity;
        (0..usize::from(capacity)).map(move |number| self.entry(number))
    }

    /// Fetches the header, which is about to be used.
    #[inline]
    pub fn prefetch(self) {
        prefetch(self.header.addr().get());
    }

    /// Gives entries back, those of `bits`. If half of the block or more is free then, it becomes
    /// listed if the caller has a list for it.
    ///
    /// # Safety
    /// The caller alone has these entries and gives them up.
    #[inline]
    pub unsafe fn give(self, bits: u64, has_list: bool) -> Given {
        // SAFETY: the header stays while somebody has one of its entries.
        let this = unsafe { self.header.as_ref() };
        let all = this.all();
        if this.capacity == 1 {
            return Given::Whole;
        }
        // ORDER: Relaxed - the CAS checks it.
        let mut free = this.free.load(Ordering::Relaxed);
        loop {
            debug_assert_eq!(free & bits, 0, "an entry is given back once");
            let now = (free | bits) & !LISTED;
            let is_half = 2 * now.count_ones() >= u32::from(this.capacity);
            let given = match free & LISTED != 0 {
                true if now == all => Given::WholeInList,
                false if now == all => Given::Whole,
                false if has_list && is_half => Given::Listed,
                _ => Given::Kept,
            };
            let becomes_listed = if given == Given::Listed { LISTED } else { 0 };
            let next = free | bits | becomes_listed;
            // ORDER(BLOCK): AcqRel - Release: our use of the entries is over before another thread
            // takes them or frees the block; Acquire: if the block is whole, all use of it is over.
            match this.free.compare_exchange(free, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return given,
                Err(now) => free = now,
            }
        }
    }

    /// Makes a whole block a listed one.
    ///
    /// # Safety
    /// The caller has the whole of it, and puts it on its list.
    pub unsafe fn list(self) {
        // SAFETY: the caller has it.
        let this = unsafe { self.header.as_ref() };
        // ORDER(BLOCK): Relaxed - its own; who takes it off the list has the list after us.
        this.free.fetch_or(LISTED, Ordering::Relaxed);
    }

    /// Takes the free entries of a block that is off its list. It is not listed any more.
    ///
    /// # Safety
    /// The block was listed, and the caller has taken it off the list, which it still owns.
    pub unsafe fn take_free(self) -> impl Iterator<Item = NonNull<Entry<T>>> {
        // SAFETY: who has the list has the block.
        let this = unsafe { self.header.as_ref() };
        this.life.look();
        // ORDER(BLOCK): AcqRel - Acquire pairs with each give; Release: who gives the last entry
        // back acquires all of this.
        let mut left = this.free.swap(0, Ordering::AcqRel) & !LISTED;
        std::iter::from_fn(move || {
            let number = left.trailing_zeros() as usize;
            (left != 0).then(|| {
                left &= left - 1;
                self.entry(number)
            })
        })
    }

    /// Whether a listed block is whole. If so, it belongs to the owner of the list.
    ///
    /// # Safety
    /// The block is listed, and the caller owns the list.
    pub unsafe fn is_whole(self) -> bool {
        // SAFETY: who has the list has the block.
        let this = unsafe { self.header.as_ref() };
        let all = this.all();
        // ORDER(BLOCK): Acquire - pairs with each give: all use of the block is over.
        this.free.load(Ordering::Acquire) == all | LISTED
    }

    /// Takes a block off its list for good. Returns whether the caller has the whole of it.
    ///
    /// # Safety
    /// As [`Block::take_free`].
    pub unsafe fn unlist(self) -> bool {
        // SAFETY: who has the list has the block.
        let this = unsafe { self.header.as_ref() };
        // Read first: after the `fetch_and` the block may be another thread's.
        let all = this.all();
        // ORDER(BLOCK): AcqRel - pairs with each thread that gave entries back: what they did to
        // them comes before the block is freed or listed again.
        this.free.fetch_and(!LISTED, Ordering::AcqRel) == all | LISTED
    }

    /// Gives the memory back to the allocator.
    ///
    /// # Safety
    /// The caller has the whole of it, and no reader sees it.
    pub unsafe fn free(self) {
        // SAFETY: the caller has it.
        let this = unsafe { self.header.as_ref() };
        let (capacity, at) = (usize::from(this.capacity), usize::from(this.at));
        this.life.end();
        // SAFETY: the caller has it.
        for entry in unsafe { self.entries() } {
            // SAFETY: an entry is there as long as its block.
            unsafe { entry.as_ref() }.end_life();
        }
        // SAFETY: the block begins so far before its header.
        let start = unsafe { self.header.byte_sub(at * Self::ENTRY) };
        // SAFETY: it was allocated with this layout, and nobody else has it.
        unsafe { sync::deallocate(start.cast().as_ptr(), Self::layout(capacity)) };
    }

    fn layout(capacity: usize) -> Layout {
        let size = Self::HEADER + capacity * Self::ENTRY;
        Layout::from_size_align(size, align_of::<Entry<T>>()).expect("a block is not large")
    }
}

/// How far an entry lies behind the header, in bytes; less than zero if it lies before it.
#[inline]
fn distance<T>(number: usize, header: usize) -> isize {
    let entries = (number as isize - header as isize) * Block::<T>::ENTRY as isize;
    if number < header { entries } else { entries + Block::<T>::HEADER as isize }
}

impl<T> Entry<T> {
    /// Memory for one timer of `engine`, in a block of its own.
    pub fn allocate(engine: u32) -> NonNull<Entry<T>> {
        Block::allocate(engine, 1, 0).entry(0)
    }

    /// Gives the memory back; the payload is not dropped. Frees the block if it was the last.
    ///
    /// # Safety
    /// Nobody holds the entry, and no reader can still see it.
    pub unsafe fn free(entry: NonNull<Entry<T>>) {
        // SAFETY: the caller has the entry.
        let (block, bit) = unsafe { (Block::of(entry), entry.as_ref().bit()) };
        // SAFETY: the caller gives up the entry of this bit.
        if unsafe { block.give(bit, false) } == Given::Whole {
            // SAFETY: the caller has just got all of it.
            unsafe { block.free() };
        }
    }

    /// The bit of the entry in its block.
    #[inline]
    pub fn bit(&self) -> u64 {
        1 << self.position().number
    }
}

debug! { impl[T] Block[T] { header = |this| this.header } }

// === impl BlockList ===

impl<T> BlockList<T> {
    /// A list of nothing.
    pub const fn empty() -> BlockList<T> {
        BlockList { blocks: Vec::new(), unseen: 0 }
    }

    /// How many blocks there are.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a block at the end.
    ///
    /// # Safety
    /// The block is listed, and on no list.
    pub unsafe fn push(&mut self, block: Block<T>) {
        self.blocks.push(block);
        self.place(self.blocks.len() - 1);
    }

    /// Takes the last block off the list.
    pub fn pop(&mut self) -> Option<Block<T>> {
        let last = self.blocks.pop();
        self.unseen = self.unseen.min(self.count());
        last
    }

    /// Takes a block off the list. The last one takes its place.
    ///
    /// # Safety
    /// The block is on this list.
    pub unsafe fn remove(&mut self, block: Block<T>) {
        // SAFETY: a block that is listed stays until it is off its list; its index is the list's.
        let index = unsafe { block.header.as_ref() }.index.with(|index| unsafe { *index });
        self.blocks.swap_remove(index);
        if index < self.blocks.len() {
            self.place(index);
        }
        self.unseen = self.unseen.min(self.count());
    }

    /// Looks at some of the blocks that are to be looked at, and moves those that are whole to
    /// `whole`. Returns `true` if there are more.
    pub fn look_through(&mut self, whole: &mut Vec<Block<T>>) -> bool {
        for _ in 0..self.unseen.min(PROBES) {
            self.unseen -= 1;
            let block = self.blocks[self.unseen];
            // SAFETY: it is listed, and the list is this thread's.
            if unsafe { block.is_whole() } {
                // SAFETY: it is on this list.
                unsafe { self.remove(block) };
                whole.push(block);
            }
        }
        self.unseen > 0
    }

    /// Takes everything off the list. Returns the blocks that are whole.
    pub fn drain(&mut self) -> Vec<Block<T>> {
        // SAFETY: each was listed, and was just taken off its list.
        std::iter::from_fn(|| self.pop()).filter(|block| unsafe { block.unlist() }).collect()
    }

    /// Tells the block at this index where it is.
    fn place(&self, at: usize) {
        // SAFETY: a block that is listed stays until it is off its list.
        let header = unsafe { self.blocks[at].header.as_ref() };
        // SAFETY: a listed block's index is the list's.
        header.index.with_mut(|index| unsafe { *index = at });
    }
}

debug! { impl[T] BlockList[T] { count = |this| this.count() } }

// === impl Header ===

impl Header {
    /// The bits of all its entries.
    #[inline]
    fn all(&self) -> u64 {
        self.life.look();
        (1 << self.capacity) - 1
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
