//! What happens between two steps of a reader: each case once, in one thread.

use std::ptr::NonNull;

use super::super::tests;
use super::*;
use crate::bench::Bench;
use crate::doorbell::Bell;
use crate::entry::read;
use crate::inbox::{CHAINS, LANES};
use crate::memory::Shared;
use crate::shard::Owner;
use crate::time::{Geometry, Place};

type Model = Bench<u32>;

fn bench() -> Model {
    tests::bench(Geometry::default(), Bell::None)
}

/// Makes a further pass. Returns the deadlines that it finds, in order.
fn pass<'g>(bench: &Model, reader: &'g Reader, scan: &mut Scan<'g, u32>) -> Vec<u64> {
    let before = scan.found.len();
    bench.shard.look(reader.guard(), u64::MAX, true, scan);
    scan.pass += 1;
    let mut deadlines: Vec<u64> = scan.found[before..].iter().map(|it| it.deadline.get()).collect();
    deadlines.sort_unstable();
    deadlines
}

fn with_owner<R>(bench: &Model, f: impl FnOnce(&mut Owner<u32>, &Shared<u32>) -> R) -> R {
    f(&mut bench.shard.owner().lock().unwrap(), &bench.shared)
}

#[test]
fn a_further_pass_reads_what_was_pushed_since() {
    let (mut bench, reader, scan) = (bench(), &read(), &mut Scan::begin());
    // Each list of the bucket has some.
    (0..20).for_each(|_| _ = bench.schedule([30, 0], 0, false));
    assert_eq!(pass(&bench, reader, scan), [30; 20]);
    assert_eq!(pass(&bench, reader, scan), [] as [u64; 0]);
    (0..3).for_each(|_| _ = bench.schedule([30, 0], 0, false));
    bench.schedule([77, 0], 0, false);
    assert_eq!(pass(&bench, reader, scan), [30, 30, 30, 77]);
    assert_eq!(pass(&bench, reader, scan), [] as [u64; 0]);
}

/// The entry that was the first of its list serves another timer, before one that is new as well.
#[test]
fn a_further_pass_does_not_end_at_an_entry_that_was_used_again() {
    let (mut bench, reader, scan) = (bench(), &read(), &mut Scan::begin());
    let ([_, middle, first], place, list) = three_on_a_list(&mut bench, 30, [false, true, true]);
    assert_eq!(pass(&bench, reader, scan), [30; 3 * LANES]);
    [middle, first].into_iter().for_each(|entry| kill(&bench, entry));
    with_owner(&bench, |owner, shared| {
        sweep(&bench, owner, shared);
        let mut swept = [(); 2].map(|()| owner.outbox.take_back().unwrap());
        swept.sort_by_key(|&entry| entry == first);
        assert_eq!(swept, [middle, first]);
        for entry in swept {
            // SAFETY: it is free memory, and ours.
            unsafe {
                entry.as_ref().put_payload(0);
                entry.as_ref().make_pending(Tick::new(31), place, 0, false);
                assert!(bench.shard.file(entry, place, list).is_ok());
            }
        }
    });
    assert_eq!(pass(&bench, reader, scan), [30, 31, 31]);
}

#[test]
fn a_further_pass_reads_a_tray_that_was_filled_since_and_no_other() {
    let (mut bench, reader, scan) = (bench(), &read(), &mut Scan::begin());
    for due in [10, 20, 30] {
        (0..5).for_each(|_| _ = bench.schedule([due, 0], 0, false));
    }
    let open = |bench: &Model, now| {
        with_owner(bench, |owner, shared| {
            bench.shard.read_notices(owner, shared);
            let now = bench.shard.begin_turn(Tick::new(now));
            while !owner.has_open() {
                assert!(bench.shard.open_due(owner, now));
            }
            // One of five.
            assert!(!bench.shard.flush(owner, shared, owner.batch.len() + 1));
        });
    };
    let close = |bench: &Model| {
        with_owner(bench, |owner, shared| bench.shard.flush(owner, shared, usize::MAX));
    };
    open(&bench, 10);
    assert_eq!(pass(&bench, reader, scan).len(), 4 + 10);
    assert_eq!(pass(&bench, reader, scan), [] as [u64; 0]);
    close(&bench);
    open(&bench, 20);
    assert_eq!(pass(&bench, reader, scan), [20; 4]);
    assert_eq!(pass(&bench, reader, scan), [] as [u64; 0]);
    close(&bench);
    with_owner(&bench, |owner, _| owner.batch().clear());
}

/// All passes that a scan may make, while timers fire, cascade and come all the time. A pass that
/// read everything again would make it as many times as many.
#[test]
fn all_passes_over_a_busy_shard_find_at_most_twice_what_is_pending() {
    const TIMERS: u64 = 4096;
    // What fires, and comes, between two passes.
    const MOVED: u64 = TIMERS / 64;
    let (mut bench, reader, scan) = (bench(), &read(), &mut Scan::begin());
    (1..=TIMERS).for_each(|due| _ = bench.schedule([due, 0], 0, false));
    let mut now = 0;
    assert_eq!(pass(&bench, reader, scan).len() as u64, TIMERS);
    for _ in 1..bench.shard.passes() {
        for _ in 0..MOVED {
            now += 1;
            bench.schedule([now + TIMERS, now], 0, false);
            bench.turn(Tick::new(now), usize::MAX);
        }
        pass(&bench, reader, scan);
    }
    let found = scan.found.len() as u64;
    assert!(found > TIMERS && found <= 2 * TIMERS, "{found} found, while {TIMERS} are pending");
}

/// The entry serves a timer of another bucket before the reader has followed its link.
#[test]
fn a_reader_that_is_led_away_goes_on_from_the_last_living_entry() {
    goes_on(|bench, again, _| {
        let far = bench.shard.place(&bench.shared, Tick::new(9_000), Tick::ZERO);
        // SAFETY: it is ours, and goes to a bucket of its own.
        unsafe {
            again.as_ref().put_payload(0);
            again.as_ref().make_pending(Tick::new(9_000), far, 0, false);
            assert!(bench.shard.file(again, far, 0).is_ok());
        }
    });
}

/// The entry is a notice of the same bucket before the reader has followed its link.
#[test]
fn a_reader_that_is_led_to_the_notices_goes_on_from_the_last_living_entry() {
    goes_on(|bench, again, place| {
        let bucket = bench.shard.wheel().bucket(place).unwrap();
        // SAFETY: it is ours, and free memory.
        assert!(!unsafe { bench.shard.announce(bucket, again, place) }.unwrap());
    });
}

fn goes_on(reuse: impl Fn(&Model, NonNull<Entry<u32>>, Place)) {
    let (mut bench, mut is_first) = (bench(), true);
    let ([last, middle, first], place, list) =
        three_on_a_list(&mut bench, 30, [false, true, false]);
    let bench = &bench;
    kill(bench, middle);
    let (seen, has_begun_again) = read_with(bench, place, list, |at| {
        if at == middle && is_first {
            is_first = false;
            with_owner(bench, |owner, shared| {
                sweep(bench, owner, shared);
                let again = owner.outbox.take_back().unwrap();
                assert_eq!(again, middle, "it was swept");
                reuse(bench, again, place);
            });
        }
    });
    assert!(!has_begun_again);
    assert_eq!(seen, [first, middle, last]);
}

/// The living entry that the reader remembers dies too.
#[test]
fn a_reader_that_has_no_living_entry_to_go_on_from_begins_with_the_list_again() {
    let (mut bench, mut is_first) = (bench(), true);
    let ([last, middle, first], place, list) = three_on_a_list(&mut bench, 30, [false, true, true]);
    let bench = &bench;
    let (seen, has_begun_again) = read_with(bench, place, list, |at| {
        if at == middle && is_first {
            is_first = false;
            [first, middle].into_iter().for_each(|entry| kill(bench, entry));
            with_owner(bench, |owner, shared| sweep(bench, owner, shared));
        }
    });
    assert!(has_begun_again);
    assert_eq!(seen, [first, middle, last]);
}

/// The bucket cascades. Nobody holds the entries, so they are filed elsewhere by the same word.
#[test]
fn a_reader_does_not_follow_the_last_living_entry_to_another_bucket() {
    let (mut bench, mut is_first) = (bench(), true);
    let ([.., first], place, list) = three_on_a_list(&mut bench, 70, [false; 3]);
    let bench = &bench;
    let (seen, has_begun_again) = read_with(bench, place, list, |_| {
        if is_first {
            is_first = false;
            with_owner(bench, |owner, shared| {
                bench.shard.read_notices(owner, shared);
                let now = bench.shard.begin_turn(place.expiration);
                assert!(bench.shard.open_due(owner, now));
                assert!(bench.shard.flush(owner, shared, usize::MAX));
            });
        }
    });
    assert!(has_begun_again);
    assert_eq!(seen, [first]);
}

/// Three timers of one list, in the order in which they were filed; the last one is first there.
/// They are due then, and `held` by handles or not. Each other list of the bucket has three too.
fn three_on_a_list(
    bench: &mut Model,
    due: u64,
    held: [bool; 3],
) -> ([NonNull<Entry<u32>>; 3], Place, usize) {
    let entries = held.map(|held| {
        let entry = bench.schedule([due, 0], 0, held);
        (1..LANES).for_each(|_| _ = bench.schedule([due, 0], 0, false));
        entry
    });
    let place = bench.shard.place(&bench.shared, Tick::new(due), Tick::ZERO);
    (entries, place, list_of(bench, place, entries[2]))
}

/// The list of which this is the first entry.
fn list_of(bench: &Model, place: Place, first: NonNull<Entry<u32>>) -> usize {
    let bucket = bench.shard.wheel().bucket(place).unwrap();
    (0..CHAINS).find(|&list| bucket.heads()[list] == first.as_ptr()).unwrap()
}

/// Cancels a timer, and leaves its seat to nobody.
fn kill(bench: &Model, entry: NonNull<Entry<u32>>) {
    // SAFETY: it is filed, and the test has its handle.
    let this = unsafe { entry.as_ref() };
    // SAFETY: it is filed; nobody uses the handle again.
    unsafe {
        this.vacate().expect("it is pending");
        assert!(!Entry::let_go(entry));
    }
    bench.shared.balance.leave_dead(0, 1);
}

/// Sweeps the dead out of their lists.
fn sweep(bench: &Model, owner: &mut Owner<u32>, shared: &Shared<u32>) {
    bench.shard.ask_for_sweep();
    while bench.shard.sweep_some(owner, shared, usize::MAX) {}
}

/// Reads a list, and calls `f` with each entry. Returns the entries, and whether the reader has
/// begun again.
fn read_with(
    bench: &Model,
    place: Place,
    list: usize,
    mut f: impl FnMut(NonNull<Entry<u32>>),
) -> (Vec<NonNull<Entry<u32>>>, bool) {
    let bucket = bench.shard.wheel().bucket(place).unwrap();
    let (mut seen, mut left) = (Vec::new(), 99);
    let note = |entry: &Entry<u32>, _, _| {
        let entry = NonNull::from(entry);
        f(entry);
        seen.push(entry);
    };
    let of = bucket_number(place.level, place.slot);
    let reader = read();
    let again = bench.shard.read_list(reader.guard(), (bucket, list), of, &mut left, None, note);
    assert!(left > 0, "it goes on and on");
    (seen, again)
}
