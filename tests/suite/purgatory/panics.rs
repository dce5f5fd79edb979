//! Callbacks of the purgatory that panic, and operations that panic when they are dropped: each is
//! counted, ends where it is, and keeps nobody else from anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::crowd::crowd;
use super::waiting::wait;
use support::by_hand::by_hand;
use support::operation::{Call, End, Op};
use support::planned::{panic_as_planned, quietly};
use tickless::{Engine, ManualClock};
use tickless_purgatory::{Operation, Purgatory};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

type Keyed = Purgatory<u32, Op>;

/// Planned panics are not shown.
fn quietly_by_hand() -> (Keyed, Engine) {
    quietly();
    by_hand()
}

#[test]
fn a_try_that_panics_counts_as_one_that_answered_no() {
    let (purgatory, _engine) = quietly_by_hand();
    let op = Op::with(|op, call| {
        op.allow();
        if call == Call::Try && op.tries() < 4 {
            panic_as_planned();
        }
    });
    let others = [crowd(&purgatory, 40, 1), {
        wait(&purgatory, &op, &[1], HOUR);
        vec![]
    }];
    let others = others.into_iter().flatten().chain(crowd(&purgatory, 40, 1)).collect::<Vec<_>>();
    assert_eq!((op.tries(), purgatory.len(), purgatory.stats().panicked), (2, 81, 2));
    others.iter().for_each(|op| op.allow());
    assert_eq!(purgatory.check_and_complete(&1), 80, "those after it too");
    assert_eq!((op.end(), purgatory.stats().panicked), (End::Untold, 3));
    assert_eq!((purgatory.check_and_complete(&1), op.end()), (1, End::Completed));
}

#[test]
fn an_end_that_panics_is_counted_and_the_operation_has_ended_all_the_same() {
    let (purgatory, engine) = quietly_by_hand();
    let vicious = || {
        Op::with(|_, call| {
            if call != Call::Try {
                panic_as_planned()
            }
        })
    };
    let [checked, forced, expired, spot] = [vicious(), vicious(), vicious(), vicious()];
    let before = crowd(&purgatory, 40, 1);
    wait(&purgatory, &checked, &[1, 2], HOUR);
    let after = crowd(&purgatory, 40, 1);
    checked.allow();
    before.iter().chain(&after).for_each(|op| op.allow());
    assert_eq!((purgatory.check_and_complete(&1), purgatory.stats().panicked), (81, 1));
    let ticket = wait(&purgatory, &forced, &[1, 2], HOUR);
    assert!(ticket.force_complete());
    drop(ticket);
    wait(&purgatory, &expired, &[1, 2], MS);
    assert_eq!((engine.advance(MS), purgatory.stats().panicked), (Ok(1), 4), "both its ends");
    assert_eq!(engine.stats().panicked, 0, "they did not get that far");
    spot.allow();
    assert!(purgatory.try_complete_else_watch(spot.clone(), [1], MS).unwrap().is_completed());
    let ops = [checked, forced, expired, spot];
    let ends = ops.each_ref().map(|op| op.end());
    assert_eq!(ends, [End::Completed, End::Completed, End::Expired, End::Completed]);
    assert!(ops.iter().all(|op| Arc::strong_count(op) == 1));
    assert_eq!((purgatory.stats().panicked, purgatory.stats().keys), (5, 0));
    purgatory.check();
}

/// An operation that can complete at its third try, and panics when it is dropped.
#[derive(Default)]
struct Bomb {
    tries: AtomicU32,
}

impl Operation for Bomb {
    fn try_complete(&self) -> bool {
        self.tries.fetch_add(1, Ordering::Relaxed) >= 2
    }

    fn on_complete(&self) {}
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_as_planned();
    }
}

#[test]
fn operations_that_panic_when_they_are_let_go_keep_no_check_from_the_others() {
    quietly();
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    let purgatory = Purgatory::with_engine(&engine);
    let watch = |n: u32| {
        let timeout = if n % 4 == 3 { MS } else { HOUR };
        purgatory.try_complete_else_watch(Arc::new(Bomb::default()), [1, n], timeout).unwrap();
    };
    // The operations are dropped in the purgatory, or with the tasks of the timers.
    let panicked = || purgatory.stats().panicked + engine.stats().panicked;
    for many in [1, 40] {
        let before = panicked();
        (0..many).for_each(watch);
        let expired = many as usize / 4;
        assert_eq!(engine.advance(MS), Ok(expired));
        assert_eq!(purgatory.check_and_complete(&1), many as usize - expired);
        assert_eq!(panicked() - before, u64::from(many), "each is let go in here");
        assert_eq!((purgatory.len(), purgatory.stats().keys), (0, 0));
        purgatory.check();
    }
    (0..40).for_each(watch);
    drop(purgatory);
    assert_eq!((engine.len(), engine.stats().panicked), (0, 10));
}
