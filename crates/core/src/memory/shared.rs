//! What all shards and threads of an engine share: depots, counters, the limit on pending timers.

use std::ptr::NonNull;

use crate::entry::{Entry, after_readers};
use crate::sync::{AtomicU64, CachePadded, Counter, IS_CHECKED, Ordering};
use crate::time::{Scale, Tick};

use super::all_counters::AllCounters;
use super::balance::Balance;
use super::blocks::Blocks;
use super::counters::Counters;
use super::depot::{Depots, Magazine, Room};
use super::items::{Memory, SEATS, Seat, magazine};

/// Magazines of seats for which the depot of a shard has room: as many as this if few timers live,
/// and never more than that. In between, there is a seat for so many living timers. Threads cancel
/// in bursts, and the more timers live, the larger the bursts. The common depot has as much room as
/// those of all shards, for bursts in few of them.
const LEAST_SEAT_MAGAZINES: usize = if IS_CHECKED { 1 } else { 32 };
const MOST_SEAT_MAGAZINES: usize = if IS_CHECKED { 1 } else { 512 };
const LIVING_PER_SEAT: u64 = 4;
const ROOM_FOR_SEATS: Room = Room { own: MOST_SEAT_MAGAZINES, common: MOST_SEAT_MAGAZINES };

/// The most bytes of free memory in the depot of a shard, unless one magazine has more, and the
/// most magazines: as many timers can fire at once before their memory is given back to the blocks.
/// What nobody has needed for a period is given back too. The common depot has a few per shard.
/// With AddressSanitizer one magazine fits, so that freed memory soon goes back to the allocator,
/// and a thread that still reads it is reported.
const MEMORY_BYTES: usize = if cfg!(asan) { 0 } else { 2 << 20 };
const MEMORY_MAGAZINES: usize = 512;
const COMMON_MEMORY_MAGAZINES: usize = 16;

/// How long a period lasts: longer than it takes until the same crowd is due again.
const PERIOD_NS: u64 = 10_000_000_000;

/// Magazines that are given back at a time.
const GIVEN_BACK: usize = 8;

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
    /// How many timers live, and how many entries are dead.
    pub balance: Balance,
    /// When the period ends, in which the memory is seen that is needed; and whether there was too
    /// much in the last one.
    period_ends: Counter,
    has_surplus: Counter,
    /// How many entries of a crowded bucket come before others: see `shard/agenda.rs`.
    pub(crate) share: usize,
    limit: Option<Limit<T>>,
}

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
            seats: Depots::new(shards, ROOM_FOR_SEATS, SEATS),
            memory: Depots::new(shards, room_for_memory::<T>(), magazine::<T>()),
            blocks: Blocks::new(engine),
            balance: Balance::new(shards),
            period_ends: Counter::new(0),
            has_surplus: Counter::new(0),
            share: if IS_CHECKED { 1 } else { SHARE },
            limit: max_pending.map(Limit::new),
        }
    }

    /// Sets how many timers are few: see `Shard::place`. None are, by default.
    pub fn with_few(mut self, few: u64) -> Shared<T> {
        self.balance.set_few(few);
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

    /// Ends the use of the counters of an owner that is succeeded by another.
    pub(crate) fn end_counting(&self, counters: &Counters, shard: u32) {
        self.balance.publish_owner(counters, shard);
        self.all_counters.hand_back(counters);
    }

    /// The number of living timers, published and unpublished, for checks while no thread is inside
    /// a call.
    pub fn balanced_living(&self) -> u64 {
        self.balance.published_living().wrapping_add(self.all_counters.unpublished_living())
    }

    /// Leaves seats to the threads of shard `home`, or to all, unless the depots are full.
    pub(super) fn leave_seats(&self, home: u32, seats: &mut Magazine<Seat<T>>) -> bool {
        self.seats.leave_within(home, seats, self.room_for_seats(LIVING_PER_SEAT))
    }

    /// A magazine of seats from a depot that has more than twice as many as it would take now:
    /// that of shard `home`, the `nth` of all, modulo their number, or the common one. (If the
    /// threads of a shard are gone, nobody else looks there. Without this, the depots keep a
    /// quarter of what lived in a burst: `tests/memory/purgatory.rs`.)
    pub(super) fn surplus_seats(&self, home: u32, nth: u64) -> Option<Magazine<Seat<T>>> {
        let room = self.room_for_seats(LIVING_PER_SEAT / 2);
        let other = (nth % self.balance.shards() as u64) as u32;
        self.seats.take_beyond([home, other], room)
    }

    fn room_for_seats(&self, living_per_seat: u64) -> Room {
        let for_all = (self.balance.living() / living_per_seat) as usize / SEATS;
        let shards = self.balance.shards();
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
            if unsafe { Entry::let_go(entry) } {
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

    /// Gives memory that is not needed back to the allocator: some of what no thread has fetched
    /// from a depot for a period, and blocks. To be called in an idle moment, at `now`, until it
    /// returns `false`.
    #[inline]
    pub fn trim(&self, now: Tick, scale: &Scale) -> bool {
        // ORDER: Relaxed - hints, when to look; also in the next two functions.
        if now.get() >= self.period_ends.load(Ordering::Relaxed) {
            self.end_period(now, scale);
        }
        // ORDER: Relaxed - a hint, when to look.
        let has_surplus = self.has_surplus.load(Ordering::Relaxed) > 0 && self.give_back_surplus();
        self.blocks.trim() || has_surplus
    }

    #[cold]
    #[inline(never)]
    fn end_period(&self, now: Tick, scale: &Scale) {
        let ends = now.saturating_add(PERIOD_NS.div_ceil(scale.tick_ns()));
        // ORDER: Relaxed - hints, when to look, here and below.
        let before = self.period_ends.swap(ends.get(), Ordering::Relaxed);
        // Another thread may have ended it.
        if before <= now.get() {
            self.memory.end_period();
            // ORDER: Relaxed - a hint, when to look.
            self.has_surplus.store(1, Ordering::Relaxed);
        }
    }

    #[cold]
    fn give_back_surplus(&self) -> bool {
        for _ in 0..GIVEN_BACK {
            let Some(mut magazine) = self.memory.take_surplus() else {
                // ORDER: Relaxed - a hint, when to look.
                self.has_surplus.store(0, Ordering::Relaxed);
                return false;
            };
            self.release(&mut magazine);
        }
        true
    }

    /// Makes room for a timer, if the limit allows. `EXEMPT`: the limit does not count it.
    #[inline]
    pub(crate) fn admit<const EXEMPT: bool>(&self) -> bool {
        EXEMPT || self.limit.as_ref().is_none_or(Limit::admit)
    }

    /// Makes room for the next timer of something that was admitted before: whatever the limit is.
    #[inline]
    pub fn admit_again(&self, payload: &T) {
        let counts = self.limit.as_ref().filter(|limit| !(limit.is_exempt)(payload));
        // ORDER: Relaxed - only a number.
        counts.into_iter().for_each(|limit| _ = limit.pending.fetch_add(1, Ordering::Relaxed));
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

/// Magazines of free memory for which the depots have room.
const fn room_for_memory<T>() -> Room {
    let own = match MEMORY_BYTES / (magazine::<T>() * size_of::<Entry<T>>()) {
        _ if IS_CHECKED => 1,
        0 => 1,
        MEMORY_MAGAZINES.. => MEMORY_MAGAZINES,
        fit => fit,
    };
    let common = if own < COMMON_MEMORY_MAGAZINES { own } else { COMMON_MEMORY_MAGAZINES };
    Room { own, common }
}

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
        // ORDER: Relaxed - only a number.
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
