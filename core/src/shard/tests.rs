//! A shard with everything around it, for unit tests, and tests of several of its files at once.

use super::*;
use crate::bench::Bench;
use crate::doorbell::{Bell, Hook};
use crate::memory::alone;
use crate::sync::{Arc, AtomicU32};

/// A bench for unit tests, which use its parts with no other.
pub(crate) fn bench<T>(geometry: Geometry, bell: Bell) -> Bench<T> {
    Bench::new(alone(1), geometry, bell, Tick::ZERO)
}

#[test]
fn of_those_who_ask_for_a_sweep_before_it_begins_the_first_rings() {
    let rings = Arc::new(AtomicU32::new(0));
    let hook = rings.clone();
    let ring = move || {
        // ORDER: Relaxed - one thread.
        hook.fetch_add(1, Ordering::Relaxed);
    };
    let Bench { shard, shared, .. } =
        &bench::<()>(Geometry::default(), Bell::Hook(Hook::new(ring)));
    for round in 1..=2 {
        assert!(!shard.wants_sweep() && !shard.begin_sweep(shared), "nobody asked");
        for _ in 0..2 {
            shard.ask_for_sweep();
            // ORDER: Relaxed - one thread.
            assert_eq!(rings.load(Ordering::Relaxed), round);
        }
        assert!(shard.wants_sweep() && shard.begin_sweep(shared), "it was asked for");
    }
}

#[test]
fn producers_need_no_notice_for_a_bucket_that_the_owner_files_in() {
    let mut bench = bench(Geometry::default(), Bell::None);
    bench.schedule([1100, 0], (), false);
    {
        let Bench { shard, shared, .. } = &bench;
        assert!(shard.has_notices(), "the bucket of level 3 is not armed");
        let owner = &mut *shard.owner().lock().unwrap();
        shard.read_notices(owner);
        let now = shard.begin(Tick::new(1024));
        assert!(shard.open_due(owner, shared, now) && shard.flush(owner, shared, 1));
    }
    bench.schedule([1100, 1024], (), false);
    assert!(!bench.shard.has_notices(), "that of level 2 is, since the first was re-filed");
}

#[test]
fn a_scan_follows_no_more_links_than_it_may() {
    let mut bench = bench(Geometry::default(), Bell::None);
    for deadline in [5, 5, 70, 7000] {
        bench.schedule([deadline, 0], (), false);
    }
    for (steps, seen) in [(0, 0), (1, 1), (3, 3), (4, 4), (5, 4)] {
        let mut count = 0;
        bench.shard.scan(&read(), steps, 1, |_| count += 1);
        assert_eq!(count, seen, "in {steps} steps");
    }
}

/// Nobody who looks needs the lock, and nobody waits for who looks.
#[test]
fn what_is_overdue_is_read_while_another_thread_has_the_lock() {
    let mut bench = bench(Geometry::default(), Bell::None);
    let due = |bench: &Bench<()>, now| bench.shard.oldest_due(Tick::new(now)).map(Tick::get);
    for deadline in [7, 40, 1000, 5000] {
        bench.schedule([deadline, 0], (), false);
    }
    // The owner has not read the notices.
    assert_eq!([6, 7, 6000].map(|now| due(&bench, now)), [None, Some(7), Some(7)]);
    let turn = |bench: &Bench<()>, now, room| {
        let owner = &mut *bench.shard.owner().lock().unwrap();
        bench.shard.read_notices(owner);
        let now = bench.shard.begin(Tick::new(now));
        while owner.batch().len() < room && bench.shard.open_due(owner, &bench.shared, now) {
            bench.shard.flush(owner, &bench.shared, room);
        }
        bench.shard.publish_first(owner.next_opening());
        owner.batch().clear();
    };
    turn(&bench, 8, 9);
    assert_eq!([39, 40, 6000].map(|now| due(&bench, now)), [None, Some(40), Some(40)]);
    // Stops behind the first, at a time at which three are due.
    turn(&bench, 6000, 1);
    let owner = bench.shard.owner().lock().unwrap();
    assert_eq!(due(&bench, 6000), Some(1000));
    drop(owner);
    turn(&bench, 6000, 9);
    assert_eq!(due(&bench, 6000), None);
    // For a time that has passed.
    bench.schedule([10, 0], (), false);
    assert_eq!(due(&bench, 6000), Some(10));
}
