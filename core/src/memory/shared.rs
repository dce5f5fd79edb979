//! What all shards and threads of an engine share: depots, counters, the limit on pending timers.

use std::ptr::NonNull;

use crate::entry::{Entry, after_readers};
use crate::sync::events::{Event, reached};
use crate::sync::{AtomicBool, AtomicU64, CachePadded, IS_CHECKED, Ordering};
use crate::time::Tick;

use super::all_counters::AllCounters;
use super::balance::Balance;
use super::blocks::Blocks;
use super::depot::{Depots, Magazine, Room};
use super::free_list::MAGAZINE;
use super::stock::{SEATS, Seat};

/// Magazines of seats for which the depot of a shard has room: as many as this if few timers live,
/// and never more than that. In between, there is a seat for so many living timers. Threads cancel
/// in bursts, and the more timers live, the larger the bursts. The common depot has as much room as
/// those of all shards, for bursts in few of them.
const LEAST_SEAT_MAGAZINES: usize = if IS_CHECKED { 1 } else { 32 };
const MOST_SEAT_MAGAZINES: usize = if IS_CHECKED { 1 } else { 512 };
const LIVING_PER_SEAT: u64 = 4;

/// The most magazines of free memory in the depot of a shard; the common depot has as many per
/// shard.
const MEMORY_MAGAZINES: usize = if IS_CHECKED { 1 } else { 16 };

/// Entries that a turn of the engine's threads goes through, and that a crowded bucket has at a
/// time while others are due.
pub const SHARE: usize = 1024;

/// The part of an engine that all its shards and threads share.
pub struct Shared<T> {
    /// The engine's number.
    pub engine: u32,
    /// Every writer's counters.
    pub all_counters: AllCounters,
    pub(crate) seats: Depots<Seat<T>>,
    pub(crate) memory: Depots<Memory<T>>,
    pub(super) blocks: Blocks<T>,
    pub(super) balance: Balance,
    /// Fewer timers than this are few; and whether so few were pending when a writer published
    /// last.
    pub(super) few: u64,
    has_few: AtomicBool,
    /// See [`Shared::is_crowded`].
    crowded: AtomicU64,
    /// How many entries of a crowded bucket come before others: see `shard/parked.rs`.
    pub(crate) share: usize,
    limit: Option<Limit<T>>,
}

/// Memory of an entry that nobody else holds.
pub struct Memory<T>(pub NonNull<Entry<T>>);

// SAFETY: it is memory without a payload, and the `Memory` alone holds it.
unsafe impl<T: Send> Send for Memory<T> {}

/// Gives one entry of an engine that is gone back to its block, once no reader can see it.
///
/// # Safety
/// The caller alone holds the entry, whose payload is out, and gives it up.
pub(crate) unsafe fn release_one<T>(entry: NonNull<Entry<T>>) {
    // SAFETY: the closure runs when every reader that could have seen the entry is gone.
    let free = move || unsafe { Entry::free(entry) };
    // SAFETY: the entry is in no list, so no new reader finds it; freeing memory without a payload
    // is fine on any thread and runs no user code.
    unsafe { after_readers(free) };
}

debug! { impl[T] Memory[T] {} }

/// How many timers may be pending, and which of them count.
///
/// *Invariant*: a timer that was admitted and counted is discharged once, by who ends it. Both look
/// at the same payload, or know of what kind it is, so they agree whether it counts.
struct Limit<T> {
    most: u64,
    /// How many are, of those that count.
    pending: CachePadded<AtomicU64>,
    /// Whether a timer with this payload does not count.
    is_exempt: fn(&T) -> bool,
}

// === impl Shared ===

impl<T> Shared<T> {
    /// What `shards` shards of engine number `engine` share.
    ///
    /// # Safety
    /// The caller is responsible for everything that is built on this value. Shards, producers and
    /// owners are used only with the `Shared` that they were made with, and an owner only with the
    /// shard whose lock guards it. Only that shard takes from its buckets and closes them. All
    /// shards are closed when this is dropped.
    pub unsafe fn new(engine: u32, shards: usize, max_pending: Option<u64>) -> Shared<T> {
        Shared {
            engine,
            all_counters: AllCounters::default(),
            seats: Depots::new(shards, MOST_SEAT_MAGAZINES, SEATS),
            memory: Depots::new(shards, MEMORY_MAGAZINES, MAGAZINE),
            blocks: Blocks::new(engine),
            balance: Balance::new(shards),
            few: 0,
            has_few: AtomicBool::new(false),
            crowded: AtomicU64::new(0),
            share: if IS_CHECKED { 1 } else { SHARE },
            limit: max_pending.map(Limit::new),
        }
    }

    /// Sets how many timers are few: see `Shard::place`. None are, by default.
    pub fn with_few(mut self, few: u64) -> Shared<T> {
        self.few = few;
        self.has_few = AtomicBool::new(few > 0);
        self
    }

    /// Sets the size of a share, for tests in which few timers are a crowd; with zero, each bucket
    /// that a turn does not finish is one.
    pub fn with_share(mut self, share: usize) -> Shared<T> {
        self.share = share;
        self
    }

    /// Sets how many entries a block has, for models, in which it has one otherwise.
    pub fn with_blocks_of(mut self, entries: usize) -> Shared<T> {
        self.blocks = Blocks::of(self.engine, entries, entries);
        self
    }

    /// Exempts timers from the limit: those for whose payloads `is_exempt` returns `true`. Before
    /// the first use.
    pub fn with_exempt(mut self, is_exempt: fn(&T) -> bool) -> Shared<T> {
        self.limit.iter_mut().for_each(|limit| limit.is_exempt = is_exempt);
        self
    }

    /// Whether few timers are pending, approximately.
    #[inline]
    pub(crate) fn has_few(&self) -> bool {
        // ORDER: Relaxed - a stale value costs a wake-up; so below.
        self.has_few.load(Ordering::Relaxed)
    }

    /// Notes how many timers are pending. Seldom writes, so that what others read of it stays in
    /// their caches.
    pub(super) fn note_living(&self, living: u64) {
        let has_few = living < self.few;
        if has_few != self.has_few() {
            // ORDER: Relaxed - as in `has_few`.
            self.has_few.store(has_few, Ordering::Relaxed);
        }
    }

    /// Whether a bucket that opens at `opens` may be open, with a crowd in it: the owner of a shard
    /// has paused in one that opened then or later. An entry in there serves no later timer, which
    /// would wait for the crowd.
    #[inline]
    pub fn is_crowded(&self, opens: Tick) -> bool {
        // ORDER: Relaxed - with a stale value, the timer has joined the crowd just before the owner
        // paused.
        opens.get() <= self.crowded.load(Ordering::Relaxed)
    }

    /// Notes that an owner has paused in a bucket that opened at `opened`.
    pub(crate) fn note_crowd(&self, opened: Tick) {
        if !self.is_crowded(opened) {
            // ORDER: Relaxed - as in `is_crowded`.
            self.crowded.fetch_max(opened.get(), Ordering::Relaxed);
        }
    }

    /// Leaves seats to the threads of shard `home`, or to all, unless the depots are full.
    pub(super) fn leave_seats(&self, home: u32, seats: &mut Magazine<Seat<T>>) -> bool {
        self.seats.leave_within(home, seats, self.room_for_seats(LIVING_PER_SEAT))
    }

    /// A magazine of seats from a depot that has more than twice as many as it would take now:
    /// that of shard `home`, the `nth` of all, modulo their number, or the common one. (If the
    /// threads of a shard are gone, nobody else looks there.)
    pub(super) fn surplus_seats(&self, home: u32, nth: u64) -> Option<Magazine<Seat<T>>> {
        let room = self.room_for_seats(LIVING_PER_SEAT / 2);
        let other = (nth % self.shards() as u64) as u32;
        self.seats.take_beyond([home, other], room)
    }

    fn room_for_seats(&self, living_per_seat: u64) -> Room {
        let (shards, for_all) = (self.shards(), (self.living() / living_per_seat) as usize / SEATS);
        let own = LEAST_SEAT_MAGAZINES.max(for_all / shards);
        Room { own, common: for_all.max(LEAST_SEAT_MAGAZINES * shards) }
    }

    /// How many entries are filed at most, while no thread is inside a call. O(shards + writers).
    pub fn most_filed(&self) -> u64 {
        // The seats of each thread are kept or outgoing.
        let of_threads = 2 * self.all_counters.writers();
        let seats = (self.seats.magazines() as u64 + of_threads) * SEATS as u64;
        self.all_counters.pending() + self.all_counters.dead() + seats
    }

    /// Gives the contents of the depots back to the allocator, after the engine has ended.
    pub fn dismantle(&self) {
        let mut free: Vec<_> = self.memory.close().collect();
        for Seat { entry, .. } in self.seats.close() {
            // SAFETY: a seat in the depot is kept by the depot alone, which forgets it here.
            if unsafe { entry.as_ref().let_go() } {
                free.push(Memory(entry));
            }
        }
        self.release(&mut free);
        self.blocks.close();
    }

    /// Gives entries that nobody holds back to their blocks. (A `Memory` is the only holder of its
    /// entry.)
    pub(crate) fn release(&self, entries: &mut Vec<Memory<T>>) {
        // SAFETY: what is used with this value is used with no other (`Shared::new`).
        unsafe { self.blocks.give(entries) };
    }

    /// Gives memory of blocks that are not needed back to the allocator. To be called in an idle
    /// moment, until it returns `false`.
    pub fn trim(&self) -> bool {
        self.blocks.trim()
    }

    /// Whether there is a limit on pending timers.
    #[inline]
    pub fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// Makes room for a timer, if the limit allows. `EXEMPT`: the limit does not count it.
    #[inline]
    pub(crate) fn admit<const EXEMPT: bool>(&self) -> bool {
        let is_admitted = EXEMPT || self.limit.as_ref().is_none_or(Limit::admit);
        if !is_admitted {
            reached(Event::LimitReached);
        }
        is_admitted
    }

    /// Whether there is a limit that counts a timer with this payload.
    #[inline]
    pub(crate) fn counts(&self, payload: &T) -> bool {
        self.limit.as_ref().is_some_and(|limit| !(limit.is_exempt)(payload))
    }

    /// Releases the room of one timer that has ended, if it counted.
    #[inline]
    pub(crate) fn discharge(&self, counted: bool) {
        if counted {
            self.limit.iter().for_each(|limit| limit.discharge(1));
        }
    }

    /// Releases the room of timers that have ended.
    #[inline]
    pub fn discharge_all<'a>(&self, payloads: impl Iterator<Item = &'a T>)
    where
        T: 'a,
    {
        let Some(limit) = &self.limit else { return };
        limit.discharge(payloads.filter(|payload| !(limit.is_exempt)(payload)).count() as u64);
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // The shards are closed, so no list reaches the entries in the depots, and no reader is
        // left.
        for Seat { entry, .. } in self.seats.close() {
            // SAFETY: a seat in the depot is kept by the depot alone once its list let go.
            unsafe { Entry::free(entry) };
        }
        for Memory(entry) in self.memory.close() {
            // SAFETY: memory in the depot is held by the depot alone.
            unsafe { Entry::free(entry) };
        }
    }
}

debug! { impl[T] Shared[T] { engine } }

// === impl Limit ===

impl<T> Limit<T> {
    fn new(most: u64) -> Limit<T> {
        Limit { most, pending: CachePadded::default(), is_exempt: |_| false }
    }

    /// Makes room for a timer that counts, if there is any.
    #[inline]
    fn admit(&self) -> bool {
        // ORDER: Relaxed - only a number; the update is atomic, so the limit is never exceeded, and
        // only pending timers cause a refusal.
        self.pending
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < self.most).then_some(n + 1)
            })
            .is_ok()
    }

    /// Releases the room of `n` timers that counted.
    #[inline]
    fn discharge(&self, n: u64) {
        // ORDER: Relaxed - as in `admit`.
        let before = self.pending.fetch_sub(n, Ordering::Relaxed);
        debug_assert!(before >= n, "{n} of {before} were discharged");
    }
}

/// For unit tests, which use everything that they build on it with no other.
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) fn alone<T>(shards: usize) -> Shared<T> {
    // SAFETY: as the tests keep to; they close each shard before it is dropped.
    unsafe { Shared::new(0, shards, None) }
}
