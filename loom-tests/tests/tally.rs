//! TALLY: writers claim tallies, count on them and hand them back.
//!
//! Who races: two or three threads that come and go. Asserted: a tally has one writer at a time,
//! who goes on from the last values of the one before (the checker watches the cell that writers
//! write when they come and go); nothing that was counted is lost; there are no more tallies than
//! there were writers at a time.

use std::sync::Arc;

use loom_tests::{check, on_thread};
use tickless::memory::{Count, Tallies, Tally};

/// Begins with two tallies that are free, the first of which was handed back last.
fn two_free() -> Arc<Tallies> {
    let tallies = Tallies::new();
    let [first, second] = [tallies.claim(), tallies.claim()];
    tallies.hand_back(&second);
    tallies.hand_back(&first);
    Arc::new(tallies)
}

fn count_on(tallies: &Tallies) {
    let tally = tallies.claim();
    tally.add(Count::Filed, 1);
    tallies.hand_back(&tally);
}

fn are_distinct(held: &[Arc<Tally>]) -> bool {
    (1..held.len()).all(|i| held[..i].iter().all(|other| !Arc::ptr_eq(other, &held[i])))
}

#[test]
fn threads_that_come_and_go_count_all() {
    check(3, || {
        let tallies = Arc::new(Tallies::new());
        let threads = [(); 2].map(|()| {
            on_thread(&tallies, |tallies| {
                count_on(tallies);
                count_on(tallies);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(tallies.scheduled(), 4);
        let of_one = Tallies::new();
        of_one.claim();
        assert_eq!(tallies.len(), of_one.len(), "one segment is enough");
    });
}

#[test]
fn one_who_is_held_up_while_others_come_and_go_gets_a_tally_of_its_own() {
    check(3, || {
        let tallies = two_free();
        let slow = on_thread(&tallies, |tallies| [tallies.claim(), tallies.claim()]);
        // The first comes back while the second does not: what the slow one saw is not so any more.
        let first = tallies.claim();
        let second = tallies.claim();
        tallies.hand_back(&first);
        let mut held = Vec::from(slow.join().unwrap());
        held.push(second);
        assert!(are_distinct(&held));
    });
}

#[test]
fn three_at_a_time_have_three() {
    check(2, || {
        let tallies = two_free();
        let threads = [(); 2].map(|()| on_thread(&tallies, Tallies::claim));
        let mut held = vec![tallies.claim()];
        held.extend(threads.map(|thread| thread.join().unwrap()));
        assert!(are_distinct(&held));
        held.iter().for_each(|tally| tally.add(Count::Filed, 1));
        assert_eq!(tallies.scheduled(), 3);
    });
}
