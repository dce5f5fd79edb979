//! Callbacks that use the purgatory they are called from, for the same key and the same operation
//! too; and calls that come by while a callback runs, and wait for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::crowd::crowd;
use support::by_hand::by_hand;
use support::mpsc;
use support::operation::{Call, End, Op};
use tickless_purgatory::{Decision, Purgatory};
// One that ThreadSanitizer can follow.
use super::waiting::wait;
use support::patience::PATIENCE;
use support::threads::spawn;
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

type Keyed = Purgatory<u32, Op>;

/// An operation that does something once: inside its next such call after it was told what.
#[derive(Clone)]
struct Actor {
    op: Arc<Op>,
    deed: Arc<Mutex<Option<Deed>>>,
}

type Deed = (Call, Box<dyn FnOnce(&Op) + Send>);

impl Actor {
    fn new() -> Actor {
        let deed = Arc::new(Mutex::new(None));
        let told: Arc<Mutex<Option<Deed>>> = deed.clone();
        let act = move |op: &Op, call| {
            let deed = told.lock().unwrap().take_if(|(when, _)| *when == call);
            if let Some((_, act)) = deed {
                act(op);
            }
        };
        Actor { op: Op::with(act), deed }
    }

    fn in_next(&self, call: Call, act: impl FnOnce(&Op) + Send + 'static) {
        *self.deed.lock().unwrap() = Some((call, Box::new(act)));
    }

    fn has_acted(&self) -> bool {
        self.deed.lock().unwrap().is_none()
    }
}

// === from a try ===

#[test]
fn a_try_that_checks_its_own_key_is_not_tried_for_ever() {
    let (purgatory, _engine) = by_hand();
    let inside = purgatory.clone();
    let op = Op::with(move |op, call| {
        assert!(op.tries() < 10, "no end of it");
        if call == Call::Try {
            assert_eq!(inside.check_and_complete(&1) + inside.check_and_complete(&2), 0);
        }
    });
    let ticket = wait(&purgatory, &op, &[1, 2], HOUR);
    assert_eq!(op.tries(), 2);
    assert_eq!((purgatory.check_and_complete(&1), op.tries()), (0, 3));
    op.allow();
    assert_eq!((purgatory.check_and_complete(&2), op.tries()), (1, 4));
    assert_eq!((op.end(), ticket.decision()), (End::Completed, Some(Decision::Completed)));
}

#[test]
fn tries_that_check_each_others_keys_come_to_an_end_and_miss_nothing() {
    let (purgatory, _engine) = by_hand();
    let ops: Vec<_> = (0..5)
        .map(|n| {
            let inside = purgatory.clone();
            Op::with(move |_, call| {
                if call == Call::Try {
                    (0..5).filter(|&key| key != n).for_each(|key| {
                        inside.check_and_complete(&key);
                    });
                }
            })
        })
        .collect();
    for (op, key) in ops.iter().zip(0..) {
        wait(&purgatory, op, &[key, 9], HOUR);
    }
    assert_eq!(purgatory.check_and_complete(&9), 0);
    ops[3].allow();
    // It is the first one's try that checks the key of the fourth.
    let tries = ops[3].tries();
    assert_eq!((purgatory.check_and_complete(&0), ops[3].end()), (0, End::Completed));
    assert_eq!((ops[3].tries(), purgatory.len()), (tries + 1, 4));
    ops.iter().for_each(|op| op.allow());
    purgatory.check_and_complete(&9);
    assert!(purgatory.is_empty() && ops.iter().all(|op| op.end() == End::Completed));
    purgatory.check();
}

#[test]
fn a_try_may_decide_its_own_operation_whatever_it_answers() {
    for answer in [false, true] {
        for decision in [Decision::Completed, Decision::Cancelled] {
            let (purgatory, _engine) = by_hand();
            let actor = Actor::new();
            let ticket = wait(&purgatory, &actor.op, &[1, 2], HOUR);
            let own = ticket.clone();
            actor.in_next(Call::Try, move |op| {
                let decide = || match decision {
                    Decision::Completed => own.force_complete(),
                    _ => own.cancel(),
                };
                assert!(decide() && !decide());
                assert_eq!(op.end(), End::Untold, "its end waits for its try");
            });
            if answer {
                actor.op.allow();
            }
            let completes = usize::from(decision == Decision::Completed);
            assert_eq!(purgatory.check_and_complete(&2), completes, "as if it had answered so");
            assert_eq!(ticket.decision(), Some(decision));
            let end = [End::Completed, End::Untold][usize::from(decision == Decision::Cancelled)];
            assert_eq!((actor.op.end(), actor.op.tries()), (end, 3));
            assert_eq!((purgatory.watched(), purgatory.engine().len()), (0, 0));
            drop(ticket);
            assert_eq!(Arc::strong_count(&actor.op), 1);
        }
    }
}

#[test]
fn a_try_may_cancel_its_own_key_or_stop_the_purgatory_and_gets_itself_back() {
    for stops in [false, true] {
        let (purgatory, _engine) = by_hand();
        let others = crowd(&purgatory, 40, 1);
        let actor = Actor::new();
        wait(&purgatory, &actor.op, &[1, 7], HOUR);
        let later = crowd(&purgatory, 40, 1);
        let inside = purgatory.clone();
        actor.in_next(Call::Try, move |op| {
            let cancelled = if stops { inside.stop() } else { inside.cancel_for_key(&1) };
            assert_eq!(cancelled.len(), 81);
            assert!(cancelled.iter().any(|cancelled| std::ptr::eq(&**cancelled, op)));
        });
        actor.op.allow();
        assert_eq!(purgatory.check_and_complete(&7), 0);
        assert!(actor.has_acted() && purgatory.is_empty());
        assert_eq!((actor.op.end(), purgatory.stats().cancelled), (End::Untold, 81));
        let untold = |op: &Arc<Op>| op.end() == End::Untold && Arc::strong_count(op) == 1;
        assert!(others.iter().chain(&later).all(untold));
        purgatory.check();
    }
}

// === from an end ===

#[test]
fn an_end_may_change_the_list_that_is_being_gone_through() {
    // Of three batches, from the first of the first, the last of it, and in the second.
    for at in [0, 31, 50] {
        let (purgatory, _engine) = by_hand();
        let before = crowd(&purgatory, at, 1);
        let actor = Actor::new();
        wait(&purgatory, &actor.op, &[1], HOUR);
        let after = crowd(&purgatory, 96 - at, 1);
        before.iter().chain(&after).for_each(|op| op.allow());
        let newcomer = Op::new();
        let (inside, late) = (purgatory.clone(), newcomer.clone());
        let last = wait(&purgatory, &Op::new(), &[1], HOUR);
        actor.in_next(Call::Complete, move |op| {
            assert_eq!(inside.cancel_for_key(&5).len(), 0);
            assert!(last.cancel(), "somebody whom the walk has not come to");
            drop(wait(&inside, &late, &[1], HOUR));
            late.allow();
            assert!(Arc::strong_count(&late) > 1 && op.end() == End::Completed);
            inside.check();
        });
        actor.op.allow();
        assert_eq!(purgatory.check_and_complete(&1), 97, "all but the cancelled and the new one");
        assert!(actor.has_acted());
        assert_eq!((newcomer.tries(), newcomer.end()), (2, End::Untold));
        assert_eq!((purgatory.check_and_complete(&1), newcomer.end()), (1, End::Completed));
        assert_eq!((purgatory.stats().cancelled, purgatory.stats().keys), (1, 0));
        purgatory.check();
    }
}

#[test]
fn an_end_may_check_its_own_key_and_complete_the_rest_before_the_check_that_it_is_in() {
    let (purgatory, _engine) = by_hand();
    let actor = Actor::new();
    wait(&purgatory, &actor.op, &[1], HOUR);
    let rest = crowd(&purgatory, 100, 1);
    rest.iter().chain([&actor.op]).for_each(|op| op.allow());
    let inside = purgatory.clone();
    actor.in_next(Call::Complete, move |_| assert_eq!(inside.check_and_complete(&1), 100));
    assert_eq!(purgatory.check_and_complete(&1), 1);
    assert!(rest.iter().all(|op| op.end() == End::Completed && op.tries() == 3));
    assert_eq!(purgatory.stats().keys, 0);
    purgatory.check();
}

#[test]
fn an_expiry_may_register_its_successor_under_the_same_key() {
    fn beat(purgatory: &Keyed, beats: &Arc<AtomicU32>) {
        let (inside, counted) = (purgatory.clone(), beats.clone());
        let op = Op::with(move |_, call| {
            if call == Call::Expire && counted.fetch_add(1, Ordering::Relaxed) < 99 {
                beat(&inside, &counted);
            }
        });
        wait(purgatory, &op, &[1], MS * 3);
    }
    let (purgatory, engine) = by_hand();
    let beats = Arc::new(AtomicU32::new(0));
    beat(&purgatory, &beats);
    assert_eq!((engine.advance(MS * 30), beats.load(Ordering::Relaxed)), (Ok(10), 10));
    assert_eq!((engine.advance(HOUR), beats.load(Ordering::Relaxed)), (Ok(90), 100));
    assert_eq!((purgatory.len(), purgatory.stats().expired), (0, 100));
}

#[test]
fn an_expiry_may_force_cancel_check_and_stop() {
    let (purgatory, engine) = by_hand();
    let actor = Actor::new();
    let forced = wait(&purgatory, &Op::new(), &[1], MS * 5);
    wait(&purgatory, &actor.op, &[1], MS * 5);
    let cancelled = wait(&purgatory, &Op::new(), &[1], MS * 5);
    let checked = crowd(&purgatory, 1, 1);
    let stopped = crowd(&purgatory, 50, 2);
    checked[0].allow();
    let (inside, tickets) = (purgatory.clone(), [forced.clone(), cancelled.clone()]);
    actor.in_next(Call::Expire, move |_| {
        // The one that came first has expired already, in the same turn.
        assert_eq!((tickets[0].force_complete(), tickets[1].cancel()), (false, true));
        assert_eq!((inside.check_and_complete(&1), inside.stop().len()), (1, 50));
    });
    assert!(engine.advance(MS * 5).is_ok());
    assert!(actor.has_acted());
    let decisions = [forced, cancelled].map(|ticket| ticket.decision());
    assert_eq!(decisions, [Some(Decision::Expired), Some(Decision::Cancelled)]);
    assert_eq!((checked[0].end(), stopped[0].end()), (End::Completed, End::Untold));
    assert_eq!((purgatory.len(), engine.len()), (0, 0));
}

// === calls that come by while a callback runs ===

/// Lets another thread check a key, which tries an operation; does something while it is inside
/// that try, and answers how many that check completed.
fn during_a_try(purgatory: &Keyed, actor: &Actor, key: u32, meanwhile: impl FnOnce()) -> usize {
    let ((enter, inside), (go_on, wait)) = (mpsc::channel(), mpsc::channel::<()>());
    actor.in_next(Call::Try, move |_| {
        enter.send(()).unwrap();
        wait.recv_timeout(PATIENCE).unwrap();
    });
    let other = purgatory.clone();
    let checker = spawn(move || other.check_and_complete(&key));
    inside.recv_timeout(PATIENCE).unwrap();
    meanwhile();
    go_on.send(()).unwrap();
    checker.join().unwrap()
}

#[test]
fn a_check_that_finds_the_operation_being_tried_goes_on_and_is_not_lost() {
    let (purgatory, _engine) = by_hand();
    let actor = Actor::new();
    wait(&purgatory, &actor.op, &[1, 2], HOUR);
    let others = crowd(&purgatory, 1, 2);
    let completed = during_a_try(&purgatory, &actor, 1, || {
        actor.op.allow();
        others[0].allow();
        assert_eq!(purgatory.check_and_complete(&2), 1, "the other one");
        assert_eq!((actor.op.tries(), actor.op.end()), (3, End::Untold));
    });
    assert_eq!((completed, actor.op.tries(), actor.op.end()), (1, 4, End::Completed));
    assert!(purgatory.is_empty());
}

#[test]
fn a_decision_during_a_try_waits_for_nobody_and_the_end_follows_the_try() {
    for decision in [Decision::Completed, Decision::Cancelled, Decision::Expired] {
        let (purgatory, engine) = by_hand();
        let actor = Actor::new();
        let ticket = wait(&purgatory, &actor.op, &[1, 2], MS);
        let completed = during_a_try(&purgatory, &actor, 1, || {
            actor.op.allow();
            match decision {
                Decision::Completed => assert!(ticket.force_complete()),
                Decision::Cancelled => assert_eq!(purgatory.cancel_for_key(&2).len(), 1),
                Decision::Expired => assert_eq!(engine.advance(MS), Ok(1)),
            }
            assert_eq!((ticket.decision(), actor.op.end()), (Some(decision), End::Untold));
            assert!(!ticket.force_complete() && !ticket.cancel());
        });
        let end = match decision {
            Decision::Completed => End::Completed,
            Decision::Cancelled => End::Untold,
            Decision::Expired => End::Expired,
        };
        assert_eq!((completed, actor.op.tries(), actor.op.end()), (0, 3, end));
        assert_eq!((purgatory.watched(), engine.len()), (0, 0));
    }
}
