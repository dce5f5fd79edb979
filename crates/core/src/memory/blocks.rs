//! Where free entries come from if no thread has left any, and where they go if nobody needs them.
//!
//! New memory comes from the allocator in blocks. When half of a block was given back, the block is
//! listed here, and the next thread that needs memory takes what is free of it. So a block that one
//! long timer holds back serves others. A block that is whole again goes back to the allocator,
//! once no reader can see it. While a reader stands still, so that what was freed waits for it,
//! whole blocks stay in the list and serve new timers: memory does not grow by what nobody may
//! free.
//!
//! *Owner*: any thread. Nobody waits: a thread that finds the list locked takes a new block, or
//! gives back without the list. Then the next thread that gives something back to the block lists
//! it, and reapers look through the list for blocks that became whole in it ([`Blocks::trim`]).
//!
//! *Orderings*: BLOCK.
//!
//! *Tested by*: `loom-tests/tests/block.rs`, `tests/memory/engine.rs`.

use crate::entry::{self, Block, BlockList, Given, after_readers};
use crate::sync::{AtomicBool, Hint, IS_CHECKED, Mutex, MutexGuard, Ordering};

use super::items::{Memory, magazine};

/// New entries that a thread takes at least, however few a block has, unless a magazine has fewer.
const FRESH: usize = if IS_CHECKED { 1 } else { 16 };

/// While so many batches wait for readers, no block is freed.
pub const MOST_WAITING: u64 = if IS_CHECKED { 2 } else { 16 };

/// The blocks of an engine.
pub struct Blocks<T> {
    engine: u32,
    /// Entries in a block, and new entries that a thread takes at least.
    capacity: usize,
    fresh: usize,
    /// Blocks that were made.
    made: Hint,
    /// Blocks of which half or more is free.
    // LOCK(BLOCKS): engine: try_list; stopper: close; caller: try_list.
    listed: Mutex<BlockList<T>>,
    /// Whether a block became whole while another thread had the list, and whether the look
    /// through the list that follows is under way.
    has_missed: AtomicBool,
    is_looking: AtomicBool,
    /// Set when the engine has ended.
    is_closed: AtomicBool,
}

// === impl Blocks ===

impl<T> Blocks<T> {
    /// The blocks of engine number `engine`.
    pub fn new(engine: u32) -> Blocks<T> {
        // Models and AddressSanitizer have a block for each entry: so each is freed as soon as it
        // can be, and they see it.
        let one_each = IS_CHECKED || cfg!(asan);
        let capacity = if one_each { 1 } else { Block::<T>::CAPACITY };
        Blocks::of(engine, capacity, FRESH.min(magazine::<T>()))
    }

    /// The same with so many entries in a block; a thread takes `fresh` new entries at least.
    pub fn of(engine: u32, capacity: usize, fresh: usize) -> Blocks<T> {
        Blocks {
            engine,
            capacity,
            fresh,
            made: Hint::new(0),
            listed: Mutex::new(BlockList::empty()),
            has_missed: AtomicBool::new(false),
            is_looking: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Adds free entries to `entries`, which is empty: all that are free of one block, or new ones.
    pub fn take_entries(&self, entries: &mut Vec<Memory<T>>) {
        // The block is off the list and not listed any more before another thread has the list.
        let used = self.try_list().and_then(|mut listed| {
            // SAFETY: it was listed, and was just taken off the list.
            listed.pop().map(|block| unsafe { block.take_free() })
        });
        match used {
            Some(free) => entries.extend(free.map(Memory)),
            None => {
                while entries.len() < self.fresh {
                    // ORDER: Relaxed - any number will do.
                    let colour = self.made.fetch_add(1, Ordering::Relaxed);
                    let block = Block::allocate(self.engine, self.capacity, colour);
                    // SAFETY: it was just allocated, and is all this thread's.
                    entries.extend(unsafe { block.entries() }.map(Memory));
                }
            }
        }
    }

    /// Gives entries back to their blocks. `entries` is empty afterwards.
    ///
    /// # Safety
    /// They are entries of this engine. (A `Memory` is the only holder of its entry.)
    pub unsafe fn give(&self, entries: &mut Vec<Memory<T>>) {
        let (mut listed, mut whole) = (self.try_list(), Vec::new());
        // SAFETY: passed on to the caller.
        if !unsafe { give(entries, listed.as_deref_mut(), &mut whole) } {
            // ORDER: Relaxed - a hint to look; who looks finds the block whole by its own word.
            self.has_missed.store(true, Ordering::Relaxed);
        }
        drop(listed);
        free(whole);
    }

    /// Gives back blocks that have become whole while another thread had the list. Returns `true`
    /// if there is more to look through.
    pub fn trim(&self) -> bool {
        // ORDER: Relaxed - hints to look; only who has the list writes the second.
        if !self.has_missed.load(Ordering::Relaxed) && !self.is_looking.load(Ordering::Relaxed) {
            return false;
        }
        if have_to_stay() {
            return false;
        }
        let Some(mut listed) = self.try_list() else { return false };
        // ORDER: Relaxed - hints to look, also below.
        if listed.unseen == 0 && self.has_missed.swap(false, Ordering::Relaxed) {
            listed.unseen = listed.count();
        }
        let mut whole = Vec::new();
        let has_more = listed.look_through(&mut whole);
        self.is_looking.store(has_more, Ordering::Relaxed);
        drop(listed);
        free(whole);
        has_more
    }

    /// How many blocks are listed.
    pub fn listed(&self) -> usize {
        self.try_list().map_or(0, |listed| listed.count())
    }

    /// Lists no more blocks, and gives back what is listed and whole. (If another thread has the
    /// list, it stays until this is dropped.)
    pub fn close(&self) {
        // ORDER: Relaxed - a block that is listed after this stays until the end.
        self.is_closed.store(true, Ordering::Relaxed);
        if let Ok(mut listed) = self.listed.try_lock() {
            free(listed.drain());
        }
    }

    /// The list, unless another thread has it or nothing is to be listed.
    fn try_list(&self) -> Option<MutexGuard<'_, BlockList<T>>> {
        // ORDER: Relaxed - a block that is listed after the end stays until the end.
        if self.capacity == 1 || self.is_closed.load(Ordering::Relaxed) {
            return None;
        }
        self.listed.try_lock().ok()
    }
}

impl<T> Drop for Blocks<T> {
    fn drop(&mut self) {
        free(self.listed.get_mut().expect("nothing panics under this lock").drain());
    }
}

debug! { impl[T] Blocks[T] { engine, capacity, listed = |this| this.listed() } }

/// Whether blocks that are whole stay in the list, because a reader stands still.
fn have_to_stay() -> bool {
    entry::waiting() >= MOST_WAITING
}

/// Gives entries back to their blocks, and adds the blocks that are to be freed to `whole`. Without
/// the list, no block is listed. Returns `false` if one that is whole stays in the list.
///
/// # Safety
/// As [`Blocks::give`].
unsafe fn give<T>(
    entries: &mut Vec<Memory<T>>,
    mut listed: Option<&mut BlockList<T>>,
    whole: &mut Vec<Block<T>>,
) -> bool {
    let (mut is_done, stays) = (true, have_to_stay());
    // SAFETY: a `Memory` keeps its entry, here and below.
    let block_of = |memory: &Memory<T>| unsafe { Block::of(memory.0) };
    entries.iter().for_each(|memory| block_of(memory).prefetch());
    for run in entries.chunk_by(|one, next| block_of(one) == block_of(next)) {
        let block = block_of(&run[0]);
        // SAFETY: a `Memory` keeps its entry.
        let bit_of = |memory: &Memory<T>| unsafe { memory.0.as_ref() }.bit();
        let bits = run.iter().fold(0, |bits, memory| bits | bit_of(memory));
        // SAFETY: they are given up here; the rest is passed on to the caller.
        match (unsafe { block.give(bits, listed.is_some()) }, &mut listed) {
            (Given::Kept, _) => {}
            (Given::Whole, Some(listed)) if stays => {
                // SAFETY: it was given back whole, and is listed now.
                unsafe {
                    block.list();
                    listed.push(block);
                }
                is_done = false;
            }
            (Given::WholeInList, Some(_)) if stays => is_done = false,
            (Given::Whole, _) => whole.push(block),
            // SAFETY: it has just become listed.
            (Given::Listed, Some(listed)) => unsafe { listed.push(block) },
            (Given::WholeInList, Some(listed)) => {
                // SAFETY: it is listed, and only who has the list takes it off.
                unsafe { listed.remove(block) };
                whole.push(block);
            }
            (Given::WholeInList, None) => is_done = false,
            (Given::Listed, None) => unreachable!("no block is listed without the list"),
        }
    }
    entries.clear();
    is_done
}

/// Gives whole blocks back to the allocator, once no reader can see their entries.
fn free<T>(whole: Vec<Block<T>>) {
    if whole.is_empty() {
        return;
    }
    // SAFETY: they were found whole, so nobody else has them.
    let free = move || whole.into_iter().for_each(|block| unsafe { block.free() });
    // SAFETY: the entries are in no list, so no new reader finds them; the closure owns all that it
    // touches, and freeing memory without a payload is fine on any thread and runs no user code.
    unsafe { after_readers(free) };
}
