//! The machine as a whole: cores take turns, a lock is handed on, and a seed decides everything.

use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use coherence_machine::{self as machine, Counts, Plan};

fn plan(cores: usize, seed: u64) -> Plan {
    Plan { cores, seed, slice: 4, line: 64, meeting: cores }
}

/// Writes to the word at this address, which need not be there.
fn write(at: usize) {
    machine::access(at, 8, true, Location::caller());
}

fn transfers(counts: &Counts) -> u64 {
    counts.sites.iter().map(|(_, tally)| tally.transfers()).sum()
}

/// Cores that each write often, `apart` bytes from each other.
fn writers(apart: usize, seed: u64) -> u64 {
    let counts = machine::run(plan(8, seed), |core| {
        write(64 + core * apart);
        machine::count_from_here();
        (0..100).for_each(|_| write(64 + core * apart));
    });
    assert_eq!(counts.accesses, 800);
    transfers(&counts)
}

#[test]
fn words_on_one_line_are_transferred_and_words_on_lines_of_their_own_are_not() {
    assert!(writers(8, 1) > 100);
    assert_eq!(writers(64, 1), 0);
}

#[test]
fn a_seed_decides_what_is_counted() {
    assert_eq!(writers(8, 7), writers(8, 7));
    let all: Vec<u64> = (0..8).map(|seed| writers(8, seed)).collect();
    assert!(all.iter().any(|count| *count != all[0]), "{all:?}");
}

#[test]
fn a_core_that_waits_for_a_lock_runs_on_when_it_is_released() {
    let (lock, inside) = (Mutex::new(()), AtomicUsize::new(0));
    let counts = machine::run(plan(16, 3), |_| {
        machine::count_from_here();
        for _ in 0..20 {
            let guard = loop {
                write(64);
                match lock.try_lock() {
                    Ok(guard) => break guard,
                    Err(_) => assert!(machine::wait(64)),
                }
            };
            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "one at a time");
            // Others run here, and find the lock taken.
            (0..4).for_each(|_| write(128));
            inside.fetch_sub(1, Ordering::Relaxed);
            drop(guard);
            machine::release(64);
        }
    });
    assert!(counts.accesses > 16 * 20 * 5, "some tried in vain: {}", counts.accesses);
}

#[test]
fn what_is_ignored_or_done_aside_does_not_count() {
    let counts = machine::run(plan(4, 5), |_| {
        machine::ignore(640);
        machine::count_from_here();
        for _ in 0..50 {
            write(640);
            machine::aside(|| write(64));
        }
    });
    assert_eq!((counts.accesses, transfers(&counts)), (0, 0));
}

#[test]
fn a_thread_that_is_no_core_is_not_counted_and_does_not_wait() {
    write(64);
    machine::pass();
    assert!(!machine::wait(64));
}
