//! DEPOT: threads exchange full magazines for empty ones.
//!
//! Who races: two that leave and one that fetches, or one that does both, or threads of two shards
//! that have a depot each and a common one. Asserted: each item
//! gets through once, with what was written to it before; what is left is drained; nothing
//! leaks.

use std::sync::Arc;

use loom_tests::check;
use tickless_core::memory::depot::{Depot, Depots, Magazine, Room};
use tickless_sync::{Life, UnsafeCell, thread};

/// Something that is not atomic, and that is missed if it leaks.
struct Item {
    value: UnsafeCell<u32>,
    life: Life,
}

impl Item {
    fn new(value: u32) -> Item {
        let item = Item { value: UnsafeCell::new(0), life: Life::begin() };
        // SAFETY: it is ours alone.
        item.value.with_mut(|cell| unsafe { *cell = value });
        item
    }

    /// Looks at what is in it: on the thread that got it, before anything else orders them.
    fn look(&self) -> u32 {
        // SAFETY: it is owned by one thread at a time; the checker reports if it was not.
        self.value.with_mut(|cell| unsafe { *cell })
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.life.end();
    }
}

// SAFETY: an item is owned by one thread at a time; the checker reports if it was not.
unsafe impl Send for Item {}

/// Fills a magazine with `value`, leaves it, and answers what would not go.
fn leave(depot: &Depot<Item>, value: u32) -> Magazine<Item> {
    let mut magazine = depot.magazine();
    magazine.push(Item::new(value));
    let left = depot.leave(&mut magazine);
    assert_eq!(left, magazine.is_empty());
    magazine
}

/// Fetches once, and answers what came.
fn fetch(depot: &Depot<Item>) -> Magazine<Item> {
    let mut magazine = depot.magazine();
    let fetched = depot.fetch(&mut magazine);
    assert_eq!(fetched, !magazine.is_empty());
    magazine.iter().for_each(|item| assert_ne!(item.look(), 0));
    magazine
}

fn assert_all(depot: Arc<Depot<Item>>, magazines: Vec<Magazine<Item>>, expected: &[u32]) {
    let depot = Arc::into_inner(depot).expect("every thread is joined");
    let items = magazines.into_iter().flat_map(|magazine| magazine.into_inner());
    let mut values: Vec<u32> = items.chain(depot.drain()).map(|item| item.look()).collect();
    values.sort_unstable();
    assert_eq!(values, expected);
}

#[test]
fn what_two_threads_leave_gets_through_once() {
    check(3, || {
        let depot = Arc::new(Depot::new(1, 1));
        let leavers = [1, 2].map(|value| {
            let depot = depot.clone();
            thread::spawn(move || leave(&depot, value))
        });
        let mut all = vec![fetch(&depot)];
        all.extend(leavers.map(|leaver| leaver.join().unwrap()));
        assert_all(depot, all, &[1, 2]);
    });
}

#[test]
fn two_threads_do_not_fetch_the_same() {
    check(3, || {
        let depot = Arc::new(Depot::new(2, 1));
        assert!(leave(&depot, 1).is_empty());
        let fetchers = [(), ()].map(|()| {
            let depot = depot.clone();
            thread::spawn(move || fetch(&depot))
        });
        let mut all = vec![leave(&depot, 2)];
        all.extend(fetchers.map(|fetcher| fetcher.join().unwrap()));
        assert_all(depot, all, &[1, 2]);
    });
}

#[test]
fn what_exceeds_the_depot_of_one_shard_is_for_others() {
    check(3, || {
        let depots = Arc::new(Depots::new(2, Room { own: 1, common: 1 }, 1));
        let leave = |depots: &Depots<Item>, values: [u32; 2]| {
            for value in values {
                let mut magazine = depots.magazine(0);
                magazine.push(Item::new(value));
                assert!(depots.leave(0, &mut magazine), "the common one has room");
            }
        };
        let leaver = {
            let depots = depots.clone();
            thread::spawn(move || leave(&depots, [1, 2]))
        };
        let mut fetched = depots.magazine(1);
        let has_fetched = depots.fetch(1, &mut fetched);
        leaver.join().unwrap();
        if !has_fetched {
            assert!(depots.fetch(1, &mut fetched), "one of two did not fit");
        }
        assert_eq!(fetched.iter().map(Item::look).collect::<Vec<_>>(), [2]);
        let depots = Arc::into_inner(depots).expect("every thread is joined");
        assert_eq!(depots.close().map(|item| item.look()).collect::<Vec<_>>(), [1]);
    });
}

#[test]
fn two_threads_exchange_in_both_directions() {
    check(3, || {
        let depot = Arc::new(Depot::new(1, 1));
        let threads = [1, 2].map(|value| {
            let depot = depot.clone();
            thread::spawn(move || [leave(&depot, value), fetch(&depot)])
        });
        let all = threads.map(|thread| thread.join().unwrap());
        assert_all(depot, all.into_iter().flatten().collect(), &[1, 2]);
    });
}

/// A magazine that nobody has fetched for a period is given back or, at the last moment, fetched.
#[test]
fn what_is_too_much_is_given_back_or_fetched_once() {
    check(3, || {
        let depots = Arc::new(Depots::new(1, Room { own: 1, common: 1 }, 1));
        let mut magazine = depots.magazine(0);
        magazine.push(Item::new(1));
        assert!(depots.leave(0, &mut magazine));
        (0..2).for_each(|_| depots.end_period());
        let fetcher = {
            let depots = depots.clone();
            thread::spawn(move || {
                let mut fetched = depots.magazine(0);
                depots.fetch(0, &mut fetched).then(|| fetched[0].look())
            })
        };
        let surplus = depots.take_surplus().filter(|magazine| !magazine.is_empty());
        let given_back = surplus.map(|magazine| magazine[0].look());
        let fetched = fetcher.join().unwrap();
        assert_eq!(given_back.xor(fetched), Some(1));
    });
}
