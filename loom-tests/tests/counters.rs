//! COUNTERS: writers claim sets of counters, count on them and hand them back.
//!
//! Who races: two or three threads that come and go. Asserted: a set has one writer at a time, who
//! goes on from the last values of the one before (the checker watches the cell that writers write
//! when they come and go); no count is lost; a set that was handed back serves again.

use std::sync::Arc;

use loom_tests::{check, on_thread};
use tickless_core::memory::{AllCounters, Count, Counters};

/// Begins with two sets that are free.
fn two_free() -> Arc<AllCounters> {
    let all_counters = AllCounters::default();
    let [first, second] = [all_counters.claim(), all_counters.claim()];
    all_counters.hand_back(&second);
    all_counters.hand_back(&first);
    Arc::new(all_counters)
}

fn count_on(all_counters: &AllCounters) {
    let counters = all_counters.claim();
    counters.add(Count::Filed, 1);
    all_counters.hand_back(&counters);
}

fn are_distinct(held: &[Arc<Counters>]) -> bool {
    (1..held.len()).all(|i| held[..i].iter().all(|other| !Arc::ptr_eq(other, &held[i])))
}

#[test]
fn threads_that_come_and_go_count_all() {
    check(3, || {
        let all_counters = Arc::new(AllCounters::default());
        let threads = [(); 2].map(|()| {
            on_thread(&all_counters, |all_counters| {
                count_on(all_counters);
                count_on(all_counters);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(all_counters.sums().scheduled(), 4);
        // Each finds what it handed back itself, or what the other one did.
        assert!(all_counters.writers() <= 3, "three sets for two at a time, and four writers");
    });
}

#[test]
fn one_who_is_held_up_while_others_come_and_go_gets_counters_of_its_own() {
    check(3, || {
        let all_counters = two_free();
        let slow =
            on_thread(&all_counters, |all_counters| [all_counters.claim(), all_counters.claim()]);
        // The first comes back while the second does not.
        let first = all_counters.claim();
        let second = all_counters.claim();
        all_counters.hand_back(&first);
        let mut held = Vec::from(slow.join().unwrap());
        held.push(second);
        assert!(are_distinct(&held));
    });
}

#[test]
fn three_at_a_time_have_three() {
    check(2, || {
        let all_counters = two_free();
        let threads = [(); 2].map(|()| on_thread(&all_counters, AllCounters::claim));
        let mut held = vec![all_counters.claim()];
        held.extend(threads.map(|thread| thread.join().unwrap()));
        assert!(are_distinct(&held));
        held.iter().for_each(|counters| counters.add(Count::Filed, 1));
        assert_eq!(all_counters.sums().scheduled(), 3);
    });
}
