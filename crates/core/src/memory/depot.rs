//! The depot: where threads swap full magazines for empty ones, and the other way round.
//!
//! A magazine is an array of items (seats, or pointers to free memory). Handing over a whole array
//! costs one swap or CAS per magazine; a linked chain would cost the receiver a memory latency per
//! item. The depot stores magazines in a bounded number of slots. It has separate slots for full
//! and for empty magazines, so a steady flow allocates nothing.
//!
//! What a shard's reaper leaves, and the seats of a shard, are what threads that schedule there
//! want. So each shard has a depot of each kind ([`Depots`]), and a common one takes what exceeds
//! those. With one depot for all, a core would get entries that other cores have just used, and
//! their lines with them; and so many threads at a time would leave gaps in which nothing is found.
//!
//! *Owner*: any thread. Nobody waits: `leave` fails if the depot is full, `fetch` if it is empty.
//!
//! *Orderings*: DEPOT.
//!
//! *Tested by*: `loom-tests/tests/depot.rs`.

use std::mem;

use crate::sync::{AtomicBool, CachePadded, Ordering};

use super::slots::Slots;

/// A batch of items on its way between threads. The depot's slots hold its box. The thread that has
/// it writes the length with each item: on a line of its own, because its neighbours in memory may
/// be other threads'.
pub type Magazine<I> = Box<CachePadded<Vec<I>>>;

/// A bounded number of full magazines, and as many empty ones.
pub struct Depot<I> {
    full: Slots<CachePadded<Vec<I>>>,
    empty: Slots<CachePadded<Vec<I>>>,
    /// Items in a full magazine.
    size: usize,
    closed: AtomicBool,
}

/// A depot for each shard, and one for what exceeds those, or what they lack.
pub struct Depots<I> {
    homes: Box<[Depot<I>]>,
    common: Depot<I>,
}

/// Magazines for which there is room.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// In the depot of a shard.
    pub own: usize,
    /// In the common one.
    pub common: usize,
}

/// A magazine with these items.
pub(super) fn magazine_of<I>(items: Vec<I>) -> Magazine<I> {
    Box::new(CachePadded::new(items))
}

// === impl Depot ===

impl<I> Depot<I> {
    /// A depot with room for `magazines` magazines of `size` items each.
    pub fn new(magazines: usize, size: usize) -> Depot<I> {
        Depot {
            full: Slots::new(magazines),
            empty: Slots::new(magazines),
            size,
            closed: AtomicBool::new(false),
        }
    }

    /// An empty magazine.
    pub fn magazine(&self) -> Magazine<I> {
        self.empty.take().unwrap_or_else(|| magazine_of(Vec::with_capacity(self.size)))
    }

    /// How many full magazines there are, as far as they are counted.
    pub fn magazines(&self) -> usize {
        self.full.len()
    }

    /// Leaves the contents of `magazine` to other threads and makes it an empty one. Returns
    /// `false` if the depot is full or closed; the magazine is then unchanged.
    pub fn leave(&self, magazine: &mut Magazine<I>) -> bool {
        // Before it takes an empty one, which may have to be made: with each that was made for
        // nothing there would be one more than the depot has room for, once all are empty.
        if self.is_closed() || self.full.is_full() {
            return false;
        }
        let full = mem::replace(magazine, self.magazine());
        let Err(full) = self.full.put(full) else { return true };
        let empty = mem::replace(magazine, full);
        self.keep_empty(empty);
        false
    }

    /// Swaps an empty magazine for one that a thread left. Returns `false` if there is none.
    pub fn fetch(&self, magazine: &mut Magazine<I>) -> bool {
        debug_assert!(magazine.is_empty(), "what is in a magazine would be lost");
        let Some(full) = self.full.take() else { return false };
        let empty = mem::replace(magazine, full);
        self.keep_empty(empty);
        true
    }

    /// Keeps an empty magazine for the next thread that needs one.
    pub fn keep_empty(&self, empty: Magazine<I>) {
        if !self.is_closed() {
            // If there is no room for it, it is freed.
            let _ = self.empty.put(empty);
        }
    }

    /// Takes everything that was left here and not fetched.
    pub fn drain(&self) -> impl Iterator<Item = I> {
        self.full.drain().flat_map(|magazine| magazine.into_inner())
    }

    /// Accepts no more magazines, and returns the same as [`Depot::drain`]. (A concurrent `leave`
    /// may still succeed; its magazine stays until the depot is dropped.)
    pub fn close(&self) -> impl Iterator<Item = I> {
        // ORDER: Relaxed - a magazine that is left after this does no harm.
        self.closed.store(true, Ordering::Relaxed);
        self.empty.drain().for_each(drop);
        self.drain()
    }

    fn is_closed(&self) -> bool {
        // ORDER: Relaxed - a magazine that is left after the end does no harm.
        self.closed.load(Ordering::Relaxed)
    }
}

debug! { impl[I] Depot[I] { size = |this| this.size } }

// === impl Depots ===

impl<I> Depots<I> {
    /// Depots for `shards` shards with so much room for magazines of `size` items; in the common
    /// one, so much for each shard.
    pub fn new(shards: usize, room: Room, size: usize) -> Depots<I> {
        Depots {
            homes: (0..shards).map(|_| Depot::new(room.own, size)).collect(),
            common: Depot::new(room.common * shards, size),
        }
    }

    /// The depot of shard `home`.
    fn at(&self, home: u32) -> &Depot<I> {
        self.homes.get(home as usize).unwrap_or(&self.common)
    }

    /// An empty magazine, for a thread of shard `home`.
    pub fn magazine(&self, home: u32) -> Magazine<I> {
        self.at(home).magazine()
    }

    /// As [`Depot::leave`]: in the depot of shard `home`, or in the common one.
    pub fn leave(&self, home: u32, magazine: &mut Magazine<I>) -> bool {
        self.at(home).leave(magazine) || self.common.leave(magazine)
    }

    /// The same while the depot of a shard has less than `own` magazines and the common one less
    /// than `common`.
    pub fn leave_within(&self, home: u32, magazine: &mut Magazine<I>, room: Room) -> bool {
        let leave = |depot: &Depot<I>, room, magazine: &mut Magazine<I>| {
            depot.magazines() < room && depot.leave(magazine)
        };
        leave(self.at(home), room.own, magazine) || leave(&self.common, room.common, magazine)
    }

    /// A magazine of a depot that has more than that: of one of these shards, or of the common one.
    pub fn take_beyond(&self, shards: [u32; 2], room: Room) -> Option<Magazine<I>> {
        let take = |depot: &Depot<I>, room| (depot.magazines() > room).then(|| depot.full.take());
        let of_shard = |shard| take(self.at(shard), room.own).flatten();
        let from_common = || take(&self.common, room.common).flatten();
        shards.into_iter().find_map(of_shard).or_else(from_common)
    }

    /// Keeps an empty magazine for threads of shard `home`.
    pub fn keep_empty(&self, home: u32, empty: Magazine<I>) {
        self.at(home).keep_empty(empty);
    }

    /// As [`Depot::fetch`]: from the depot of shard `home`, or from the common one.
    pub fn fetch(&self, home: u32, magazine: &mut Magazine<I>) -> bool {
        self.at(home).fetch(magazine) || self.common.fetch(magazine)
    }

    /// Ends a period. Magazines that nobody has fetched in it, though they were there throughout,
    /// are too many.
    pub fn end_period(&self) {
        for depot in self.each() {
            depot.full.end_period();
            depot.empty.end_period();
        }
    }

    /// Takes a magazine out of which there are too many, full or empty.
    pub fn take_surplus(&self) -> Option<Magazine<I>> {
        self.each()
            .find_map(|depot| depot.full.take_surplus().or_else(|| depot.empty.take_surplus()))
    }

    /// As [`Depot::magazines`], in all.
    pub fn magazines(&self) -> usize {
        self.each().map(Depot::magazines).sum()
    }

    /// As [`Depot::close`], of all.
    pub fn close(&self) -> impl Iterator<Item = I> {
        self.each().flat_map(Depot::close)
    }

    fn each(&self) -> impl Iterator<Item = &Depot<I>> {
        self.homes.iter().chain([&self.common])
    }
}

debug! { impl[I] Depots[I] { shards = |this| this.homes.len() } }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_fetched_once_and_an_empty_depot_says_so() {
        let depot = Depot::new(2, 4);
        let mut magazine = depot.magazine();
        assert_eq!(magazine.capacity(), 4);
        magazine.extend([1, 2, 3]);
        assert!(depot.leave(&mut magazine));
        assert!(magazine.is_empty());
        assert!(depot.fetch(&mut magazine));
        assert_eq!(**magazine, [1, 2, 3]);
        magazine.clear();
        assert!(!depot.fetch(&mut magazine));
    }

    #[test]
    fn a_full_depot_leaves_the_magazine_as_it_is() {
        let depot = Depot::new(2, 1);
        assert!(depot.leave(&mut magazine_of(vec![1])));
        assert!(depot.leave(&mut magazine_of(vec![2])));
        let mut third = magazine_of(vec![3]);
        assert!(!depot.leave(&mut third));
        assert_eq!(**third, [3]);
        let mut left: Vec<_> = depot.drain().collect();
        left.sort_unstable();
        assert_eq!(left, [1, 2]);
    }

    #[test]
    fn a_closed_depot_gives_all_back_and_takes_no_more() {
        let depot = Depot::new(2, 1);
        assert!(depot.leave(&mut magazine_of(vec![1])));
        assert!(depot.close().eq([1]));
        let mut late = magazine_of(vec![2]);
        assert!(!depot.leave(&mut late));
        assert_eq!((late.into_inner(), depot.drain().count()), (vec![2], 0));
    }

    #[test]
    fn what_a_shard_leaves_stays_there_and_what_exceeds_its_depot_is_for_all() {
        let depots = Depots::new(2, Room { own: 1, common: 1 }, 1);
        let leave = |home, item| depots.leave(home, &mut magazine_of(vec![item]));
        let fetch = |home| {
            let mut magazine = depots.magazine(home);
            depots.fetch(home, &mut magazine).then(|| magazine[0])
        };
        assert!(leave(0, 1));
        assert_eq!(fetch(1), None, "it is the other shard's");
        assert!(leave(0, 2) && leave(0, 3) && !leave(0, 4), "the common depot has room for two");
        assert!(leave(1, 5) && !leave(1, 6));
        let mut of_one = [(); 4].map(|()| fetch(1));
        of_one[1..3].sort_unstable();
        assert_eq!(of_one, [Some(5), Some(2), Some(3), None]);
        assert_eq!((fetch(0), fetch(0)), (Some(1), None));
        assert!((0..4).all(|item| leave(item % 2, item)));
        let mut left: Vec<_> = depots.close().collect();
        left.sort_unstable();
        assert_eq!((left, leave(0, 9)), (vec![0, 1, 2, 3], false));
    }

    #[test]
    fn a_steady_exchange_makes_no_new_magazines() {
        let depot = Depot::new(1, 2);
        let mut giver = depot.magazine();
        let mut taker = depot.magazine();
        let mut seen = vec![giver.as_ptr(), taker.as_ptr()];
        for i in 0..10 {
            giver.push(i);
            assert!(depot.leave(&mut giver));
            assert!(depot.fetch(&mut taker));
            seen.extend([giver.as_ptr(), taker.as_ptr()]);
            taker.clear();
        }
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() <= 3, "{} magazines were made", seen.len());
    }
}
