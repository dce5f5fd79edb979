//! What happens between two steps of a reader: each case once, in one thread.

use super::super::tests;
use super::*;
use crate::bench::Bench;
use crate::doorbell::Bell;
use crate::entry::read;
use crate::memory::Shared;
use crate::shard::Owner;
use crate::time::{Geometry, Place};

type Model = Bench<u32>;

fn bench() -> Model {
    tests::bench(Geometry::default(), Bell::None)
}

/// Makes a further pass. Returns the deadlines that it finds, in order.
fn pass(bench: &Model, scan: &mut Scan<u32>) -> Vec<u64> {
    let before = scan.found.len();
    bench.shard.look(&read(), u64::MAX, true, scan);
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
    let (mut bench, scan) = (bench(), &mut Scan::begin());
    // Each list of the bucket has some.
    (0..20).for_each(|_| _ = bench.schedule([30, 0], 0, false));
    assert_eq!(pass(&bench, scan), [30; 20]);
    assert_eq!(pass(&bench, scan), [] as [u64; 0]);
    (0..3).for_each(|_| _ = bench.schedule([30, 0], 0, false));
    bench.schedule([77, 0], 0, false);
    assert_eq!(pass(&bench, scan), [30, 30, 30, 77]);
    assert_eq!(pass(&bench, scan), [] as [u64; 0]);
}

#[test]
fn a_further_pass_reads_a_hand_that_was_filled_since_and_no_other() {
    let (mut bench, scan) = (bench(), &mut Scan::begin());
    for due in [10, 20, 30] {
        (0..5).for_each(|_| _ = bench.schedule([due, 0], 0, false));
    }
    let open = |bench: &Model, now| {
        with_owner(bench, |owner, shared| {
            bench.shard.read_notices(owner, shared);
            let now = bench.shard.begin(Tick::new(now));
            while !owner.has_open() {
                assert!(bench.shard.open_due(owner, shared, now));
            }
            // One of five.
            assert!(!bench.shard.flush(owner, shared, owner.batch.len() + 1));
        });
    };
    let close = |bench: &Model| {
        with_owner(bench, |owner, shared| bench.shard.flush(owner, shared, usize::MAX));
    };
    open(&bench, 10);
    assert_eq!(pass(&bench, scan).len(), 4 + 10);
    assert_eq!(pass(&bench, scan), [] as [u64; 0]);
    close(&bench);
    open(&bench, 20);
    assert_eq!(pass(&bench, scan), [20; 4]);
    assert_eq!(pass(&bench, scan), [] as [u64; 0]);
    close(&bench);
    with_owner(&bench, |owner, _| owner.batch().clear());
}

/// The entry serves a timer of another bucket before the reader follows its link.
#[test]
fn a_reader_that_is_led_away_begins_with_the_list_again() {
    begins_again(|bench, again, _| {
        let far = bench.shard.place(&bench.shared, Tick::new(9_000), Tick::ZERO);
        // SAFETY: it is ours, and goes to a bucket of its own.
        unsafe {
            again.as_ref().put_payload(0);
            again.as_ref().arm(Tick::new(9_000), far, 0, false);
            assert!(bench.shard.file(again, far, 0).is_ok());
        }
    });
}

/// The entry is a notice of the same bucket before the reader follows its link.
#[test]
fn a_reader_that_is_led_to_the_notices_begins_with_the_list_again() {
    begins_again(|bench, again, place| {
        let bucket = bench.shard.wheel().bucket(place).unwrap();
        // SAFETY: it is ours, and free memory.
        assert!(!unsafe { bench.shard.announce(bucket, again, place) }.unwrap());
    });
}

fn begins_again(reuse: impl Fn(&Model, NonNull<Entry<u32>>, Place)) {
    let mut bench = bench();
    // On one list: what was filed last is first.
    let lanes = crate::inbox::LANES;
    let entries: Vec<_> =
        (0..3 * lanes).map(|_| bench.schedule([30, 0], 0, true)).step_by(lanes).collect();
    let [last, middle, first] = entries[..] else { panic!("{entries:?}") };
    let place = bench.shard.place(&bench.shared, Tick::new(30), Tick::ZERO);
    let bucket = bench.shard.wheel().bucket(place).unwrap();
    let list = (0..CHAINS).find(|&list| bucket.first(list) == first.as_ptr()).unwrap();
    let sweep_and_reuse = |entry: NonNull<Entry<u32>>| {
        // SAFETY: it is filed, and the test has its handle.
        let this = unsafe { entry.as_ref() };
        // SAFETY: as above; nobody uses the handle again.
        unsafe {
            this.vacate().expect("it is pending");
            assert!(!this.let_go());
        }
        bench.shared.leave_dead(0, 1);
        with_owner(&bench, |owner, shared| {
            bench.shard.ask_for_sweep();
            while bench.shard.sweep_some(owner, shared, usize::MAX) {}
            let again = owner.outbox.take_back().unwrap();
            assert_eq!(again, entry, "it was swept");
            reuse(&bench, again, place);
        });
    };
    let (mut seen, mut left) = (Vec::new(), 99);
    let note = |entry: *const Entry<u32>, _, _| {
        if entry == middle.as_ptr().cast_const() && !seen.contains(&entry) {
            sweep_and_reuse(middle);
        }
        seen.push(entry);
    };
    let of = place_of(place.level, place.slot);
    assert!(bench.shard.read_list(&read(), (bucket, list), of, &mut left, None, note));
    let expected = [first, middle, first, last].map(|entry| entry.as_ptr().cast_const());
    assert_eq!(seen, expected);
}
