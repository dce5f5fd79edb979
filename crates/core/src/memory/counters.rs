//! Counters with one writer, a thread or a reaper.
//!
//! *Owner*: the thread or reaper that claimed a set of counters writes it; any thread reads it.
//!
//! *Tested by*: `loom-tests/tests/counters.rs`, `tests/suite/observe/stats.rs`.

use std::array;

use crate::sync::{AtomicBool, CachePadded, Counter, Ordering, UnsafeCell, add_alone};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Timers scheduled in an entry of their own.
    Filed,
    /// Timers scheduled in the seat of a cancelled one.
    Seated,
    /// Timers cancelled before they fired.
    Cancelled,
    /// Timers moved to another time.
    Reset,
    /// Timers fired.
    Fired,
    /// Payloads given back when the engine stopped.
    Returned,
    /// Vacancies that neither a thread nor a depot keeps: dead until their bucket opens or is
    /// swept.
    Dead,
    /// Dead entries that became free memory.
    Buried,
    /// Entries that were filed again, in another bucket.
    Cascaded,
    /// Payloads whose handler panicked.
    Panicked,
    /// Times that the reaper's sleep ended.
    WokeUp,
    /// Times that another reaper took the shard over.
    TakenOver,
    /// Timers that fired for the engine's own code, which has scheduled them again: no task of the
    /// user has run.
    Rearmed,
    /// Fired timers whose handle is still there: one more when such a timer fires, one less when
    /// its handle lets go. A writer's own count wraps below zero.
    Unended,
}

pub(super) const COUNTS: usize = Count::Unended as usize + 1;

/// The counts in the order in which a reader reads them: what corrects other counts first, and what
/// counts beginnings, which have other counts for the end, last.
pub(super) const PASSES: [&[Count]; 3] = {
    use Count::*;
    [
        &[Rearmed],
        &[
            Cancelled, Reset, Fired, Returned, Buried, Cascaded, Panicked, WokeUp, TakenOver,
            Unended,
        ],
        &[Filed, Seated, Dead],
    ]
};

const _: () = assert!(PASSES[0].len() + PASSES[1].len() + PASSES[2].len() == COUNTS, "each once");

/// One writer's counters.
#[derive(Debug)]
pub struct Counters {
    counts: CachePadded<[Counter; COUNTS]>,
    /// What the writer has published of its counts: see [`Counters::unpublished`].
    published: Changes<Counter>,
    is_claimed: AtomicBool,
    /// Empty: a writer writes here when it starts, when it publishes, and when it ends. So a model
    /// checker reports two writers at a time, and one that does not happen after the one before.
    writer: UnsafeCell<()>,
}

/// The counts that decisions about dead entries depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes<N = u64> {
    /// Timers that began, less those that ended. It wraps below zero.
    pub(super) living: N,
    /// Dead entries that were buried.
    pub(super) buried: N,
}

// SAFETY: all fields but `writer` are atomic or never change, and `writer` has no bytes: it is
// there for a model checker.
unsafe impl Sync for Counters {}

// === impl Counters ===

impl Counters {
    /// A set for a writer that has claimed it.
    pub(super) fn claimed() -> Counters {
        let counts = array::from_fn(|_| Counter::new(0));
        let published = Changes { living: Counter::new(0), buried: Counter::new(0) };
        let counts = CachePadded::new(counts);
        Counters {
            counts,
            published,
            is_claimed: AtomicBool::new(true),
            writer: UnsafeCell::new(()),
        }
    }

    /// Claims the set for a new writer, if it is free.
    pub(super) fn claim(&self) -> bool {
        // ORDER(COUNTERS): Acquire - pairs with the Release in `hand_back`: the new writer goes on
        // from the last values of the one before. Relaxed - a set that is not free is left alone.
        let (from, to) = (Ordering::Acquire, Ordering::Relaxed);
        !self.is_claimed.load(Ordering::Relaxed)
            && self.is_claimed.compare_exchange(false, true, from, to).is_ok()
    }

    /// Frees the set for the next writer.
    pub(super) fn hand_back(&self) {
        // ORDER(COUNTERS): Release - pairs with the Acquire in `claim`.
        self.is_claimed.store(false, Ordering::Release);
    }

    /// Adds to a counter. Only the one writer of these counters may call this.
    #[inline]
    pub fn add(&self, count: Count, n: u64) {
        add_alone(&self.counts[count as usize], n);
    }

    /// A counter, for its one writer.
    pub fn counter(&self, count: Count) -> &Counter {
        &self.counts[count as usize]
    }

    /// Reads a counter.
    #[inline]
    pub fn get(&self, count: Count) -> u64 {
        // ORDER: Relaxed - the caller is the writer, or wants numbers only.
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    /// What the writer has counted and not published yet.
    pub(super) fn unpublished(&self) -> Changes {
        let begun = self.get(Count::Filed).wrapping_add(self.get(Count::Seated));
        let ended = [Count::Cancelled, Count::Fired, Count::Returned].map(|count| self.get(count));
        let living = ended.into_iter().fold(begun, u64::wrapping_sub);
        let published = &self.published;
        Changes {
            // ORDER: Relaxed - the caller is the writer, or wants numbers only.
            living: living.wrapping_sub(published.living.load(Ordering::Relaxed)),
            buried: self.get(Count::Buried).wrapping_sub(published.buried.load(Ordering::Relaxed)),
        }
    }

    /// Marks it as published, for the writer, which publishes it next.
    pub(super) fn note_published(&self, unpublished: Changes) {
        self.note_writer();
        let take = |published: &Counter, n: u64| {
            if n != 0 {
                add_alone(published, n);
            }
        };
        take(&self.published.living, unpublished.living);
        take(&self.published.buried, unpublished.buried);
    }

    /// A writer starts, publishes or ends.
    pub(super) fn note_writer(&self) {
        self.writer.with_mut(|_| ());
    }
}
