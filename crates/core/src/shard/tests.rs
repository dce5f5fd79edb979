//! A shard with everything around it, for unit tests, and tests of several of its files at once.

use super::*;
use crate::bench::Bench;
use crate::doorbell::{Bell, Hook};
use crate::memory::{Count, alone};
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
        shard.read_notices(owner, shared);
        let now = shard.begin_turn(Tick::new(1024));
        assert!(shard.open_due(owner, now) && shard.flush(owner, shared, 1));
    }
    bench.schedule([1100, 1024], (), false);
    assert!(!bench.shard.has_notices(), "that of level 2 is, since the first was re-filed");
}

/// Each keeps a block: with two magazines of them, an owner that has freed nothing else kept half a
/// megabyte.
#[test]
#[cfg_attr(asan, ignore = "nothing is kept at hand, so there are no magazines")]
fn notices_that_were_read_are_passed_on_as_soon_as_they_fill_a_magazine() {
    let Bench { shard, shared, .. } = &bench::<()>(Geometry::default(), Bell::None);
    let place = shard.place(shared, Tick::new(5), Tick::ZERO);
    for read in 1..=3 * 64 {
        let bucket = shard.wheel.bucket(place).unwrap();
        // SAFETY: the memory is new, so it is held here alone.
        assert!(!unsafe { shard.announce(bucket, Entry::allocate(0), place) }.unwrap());
        shard.read_notices(&mut shard.owner.lock().unwrap(), shared);
        assert_eq!(shared.memory.magazines(), read / 64, "after {read}");
    }
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
    let due =
        |bench: &Bench<()>, now| bench.shard.oldest_due(&read(), Tick::new(now)).map(Tick::get);
    for deadline in [7, 40, 1000, 5000] {
        bench.schedule([deadline, 0], (), false);
    }
    // The owner has not read the notices.
    assert_eq!([6, 7, 6000].map(|now| due(&bench, now)), [None, Some(7), Some(7)]);
    let turn = |bench: &Bench<()>, now, room| {
        let owner = &mut *bench.shard.owner().lock().unwrap();
        bench.shard.read_notices(owner, &bench.shared);
        let now = bench.shard.begin_turn(Tick::new(now));
        while owner.batch().len() < room && bench.shard.open_due(owner, now) {
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

/// Lets a timer of the bench die where it is filed.
fn let_die(bench: &Bench<u32>, entry: NonNull<Entry<u32>>) {
    // SAFETY: it is filed, and the test has its handle, which nobody uses again.
    unsafe {
        entry.as_ref().vacate().expect("it is pending");
        assert!(!Entry::let_go(entry));
    }
    bench.shared.balance.leave_dead(0, 1);
}

/// Sweeps until nothing is left to sweep, so many entries at a time.
fn sweep(bench: &Bench<u32>, visits: usize) {
    let owner = &mut *bench.shard.owner().lock().unwrap();
    while bench.shard.sweep_some(owner, &bench.shared, visits) {}
    bench.shard.publish_counts(owner, &bench.shared);
}

#[test]
fn a_sweep_frees_all_that_is_dead_however_often_it_pauses() {
    for visits in [1, 2, 7, usize::MAX] {
        let mut bench = bench(Geometry::default(), Bell::None);
        let all: Vec<_> = (0..200).map(|i| bench.schedule([30 + i % 50, 0], 0, true)).collect();
        all.iter().for_each(|&entry| let_die(&bench, entry));
        bench.shard.ask_for_sweep();
        sweep(&bench, visits);
        assert_eq!(bench.shared.balance.dead_in(0), 0, "{visits} visits at a time");
        bench.check(Tick::ZERO);
    }
}

/// Nobody comes across what was swept there, and the rest is swept.
#[test]
fn a_bucket_or_a_round_opens_in_which_a_sweep_has_paused() {
    for (due, now, before) in [(10, 0, None), (74, 50, Some(10))] {
        let mut bench = bench(Geometry::default(), Bell::None);
        if let Some(before) = before {
            // The others are of the next round of its bucket, and are put aside when it opens.
            bench.schedule([before, 0], 0, false);
        }
        let all: Vec<_> = (0..60).map(|i| bench.schedule([due, now], 1, i % 2 == 0)).collect();
        let beside = bench.schedule([due + 9, now], 0, true);
        if let Some(before) = before {
            assert_eq!(bench.turn(Tick::new(before), usize::MAX).1, [0]);
        }
        let dead = all.iter().step_by(2).chain([&beside]);
        dead.for_each(|&entry| let_die(&bench, entry));
        bench.shard.ask_for_sweep();
        for _ in 0..20 {
            let owner = &mut *bench.shard.owner().lock().unwrap();
            assert!(bench.shard.sweep_some(owner, &bench.shared, 1), "it is not done");
        }
        let (_, fired) = bench.turn(Tick::new(due), usize::MAX);
        assert_eq!(fired, [1; 30]);
        sweep(&bench, 1);
        assert_eq!(bench.shared.balance.dead_in(0), 0);
        bench.check(Tick::new(due));
    }
}

/// Else what dies beside slow tasks is swept too late, however many threads cancel.
#[test]
fn a_busy_owner_sweeps_more_the_more_die_meanwhile() {
    let mut bench = bench(Geometry::default(), Bell::None);
    let all: Vec<_> = (0..30_000).map(|_| bench.schedule([30, 0], 0, true)).collect();
    let (early, late) = all.split_at(6_000);
    let swept = |bench: &Bench<u32>| {
        let owner = &mut *bench.shard.owner().lock().unwrap();
        let before = owner.counters().get(Count::Buried);
        bench.shard.sweep_beside_work(owner, &bench.shared);
        owner.counters().get(Count::Buried) - before
    };
    early.iter().for_each(|&entry| let_die(&bench, entry));
    bench.shard.ask_for_sweep();
    assert!(swept(&bench) <= 1024);
    late.iter().for_each(|&entry| let_die(&bench, entry));
    let swept = swept(&bench);
    assert!((4_000..=6_000).contains(&swept), "{swept} of 24,000 that died since");
}

/// A reader that stands on what is cut out may lose what comes behind it.
#[test]
fn a_cut_in_a_round_put_aside_makes_a_scan_go_on() {
    let mut bench = bench(Geometry::default(), Bell::None);
    bench.schedule([10, 0], 0, false);
    // Of the next round of that bucket.
    let dies = |i: usize| i >= 10 && i % 2 == 0;
    let all: Vec<_> = (0..40).map(|i| bench.schedule([74, 50], 0, dies(i))).collect();
    let (_, fired) = bench.turn(Tick::new(10), usize::MAX);
    assert_eq!(fired, [0]);
    let before = bench.shard.progress().expect("nothing moves");
    assert_eq!(bench.shard.progress().as_ref(), Some(&before));
    // Those that were filed first come first in their chains.
    (0..40).filter(|&i| dies(i)).for_each(|i| let_die(&bench, all[i]));
    bench.shard.ask_for_sweep();
    sweep(&bench, usize::MAX);
    let after = bench.shard.progress().expect("nothing moves");
    assert_ne!(after, before);
    assert_eq!(after[1..], before[1..], "the tray itself does not tell");
}
