//! The audit notices each offence that it claims to notice, and nothing else.

use std::time::{Duration, Instant};

#[path = "../src/audit.rs"]
mod audit;

use audit::{Books, Ledger};

const DELAY: Duration = Duration::from_millis(100);
const MOMENT: Duration = Duration::from_nanos(1);

/// The books of a ledger to which a story happened, told from a fixed instant.
fn books_after(story: impl FnOnce(&mut Ledger, Instant)) -> Books {
    let mut ledger = Ledger::new("test");
    story(&mut ledger, Instant::now());
    ledger.close()
}

fn owner(fired: Option<(usize, Duration)>) -> Option<usize> {
    fired.map(|(owner, _)| owner)
}

#[test]
fn timers_that_meet_one_fate_in_time_are_no_violation() {
    let books = books_after(|ledger, now| {
        let fired = ledger.arm(7, now + DELAY);
        let cancelled = ledger.arm(8, now + DELAY);
        let moved = ledger.arm(9, now + DELAY);
        assert_eq!(ledger.pending_count(), 3);
        ledger.cancel(cancelled);
        ledger.reset(moved, now + 2 * DELAY);
        assert_eq!(owner(ledger.fire(fired, now + DELAY)), Some(7));
        assert_eq!(owner(ledger.fire(moved, now + 2 * DELAY)), Some(9));
        assert_eq!(ledger.pending_count(), 0);
    });
    assert_eq!(books.violations(), 0, "{:?}", books.notes);
    assert_eq!((books.scheduled, books.cancelled, books.reset, books.fired), (3, 1, 1, 2));
    assert_eq!(books.lateness_ns.max(), 0);
}

#[test]
fn a_fire_one_nanosecond_before_the_deadline_is_early() {
    let books = books_after(|ledger, now| {
        let timer = ledger.arm(0, now + DELAY);
        ledger.fire(timer, now + DELAY - MOMENT);
    });
    assert_eq!((books.early, books.violations()), (1, 1));
}

#[test]
fn a_fire_at_the_old_deadline_after_a_confirmed_reset_is_early() {
    let books = books_after(|ledger, now| {
        let timer = ledger.arm(0, now + DELAY);
        ledger.reset(timer, now + 2 * DELAY);
        ledger.fire(timer, now + DELAY);
    });
    assert_eq!((books.early, books.violations()), (1, 1));
}

#[test]
fn a_timer_without_a_fate_is_lost() {
    let books = books_after(|ledger, now| {
        ledger.arm(0, now);
    });
    assert_eq!((books.lost, books.violations()), (1, 1));
}

#[test]
fn the_second_fire_is_a_duplicate_and_has_no_owner() {
    let books = books_after(|ledger, now| {
        let timer = ledger.arm(0, now);
        assert_eq!(owner(ledger.fire(timer, now)), Some(0));
        assert_eq!(ledger.fire(timer, now), None);
    });
    assert_eq!((books.fired, books.duplicate, books.violations()), (1, 1, 1));
}

#[test]
fn firing_and_a_confirmed_cancel_contradict_each_other_in_either_order() {
    let books = books_after(|ledger, now| {
        let first = ledger.arm(0, now);
        ledger.cancel(first);
        assert_eq!(ledger.fire(first, now), None);
        let second = ledger.arm(0, now);
        ledger.fire(second, now);
        ledger.cancel(second);
    });
    assert_eq!((books.contradicted, books.violations()), (2, 2));
}

#[test]
fn a_late_second_fate_never_passes_for_the_next_timer_in_the_same_place() {
    let books = books_after(|ledger, now| {
        let old = ledger.arm(0, now);
        ledger.fire(old, now);
        // Enough timers to make the ledger use every place again.
        for owner in 0..200_000 {
            let timer = ledger.arm(owner, now);
            assert_ne!(timer, old);
            ledger.cancel(timer);
        }
        let pending = ledger.arm(1, now);
        assert_eq!(ledger.fire(old, now), None);
        assert_eq!(owner(ledger.fire(pending, now)), Some(1));
    });
    assert_eq!((books.duplicate, books.violations()), (1, 1));
}

#[test]
fn books_that_are_added_up_keep_every_offence() {
    let mut sum = books_after(|ledger, now| {
        ledger.arm(0, now);
    });
    sum.add(books_after(|ledger, now| {
        let timer = ledger.arm(0, now + DELAY);
        ledger.fire(timer, now);
    }));
    assert_eq!((sum.scheduled, sum.lost, sum.early, sum.violations()), (2, 1, 1, 2));
    assert_eq!(sum.notes.len(), 2);
}
