//! The ends of a purgatory, and who outlives whom: what is refused comes back and waits nowhere,
//! what is cancelled or returned is called no more, and nothing is kept by anybody.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::waiting::wait;
use support::by_hand::by_hand;
use support::mpsc;
use support::operation::{Call, End, Op};
use support::patience::PATIENCE;
use tickless::{Engine, ManualClock};
use tickless_purgatory::{Decision, Purgatory, WatchError, WatchReason};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

type Keyed = Purgatory<u32, Op>;

/// Lets so many operations wait, each under three keys, and answers what leads to them.
fn crowd(purgatory: &Keyed, many: u32) -> Vec<Weak<Op>> {
    let one = |n: u32| {
        let op = Op::new();
        wait(purgatory, &op, &[n, n % 7, n % 100], HOUR * (1 + n % 3));
        Arc::downgrade(&op)
    };
    (0..many).map(one).collect()
}

fn all_gone(weak: &[Weak<Op>]) -> bool {
    weak.iter().all(|weak| weak.strong_count() == 0)
}

// === refused ===

/// Registers an operation that is refused, and looks that it waits nowhere.
#[track_caller]
fn refused(purgatory: &Keyed, keys: &[u32], tries: u32) -> WatchError<Op> {
    let (before, timers) = (purgatory.stats(), purgatory.engine().len());
    let op = Op::new();
    let arrival = purgatory.try_complete_else_watch(op.clone(), keys.iter().copied(), MS);
    let error = arrival.expect_err("it is refused");
    assert_eq!(Arc::strong_count(&op), 2, "the error's and ours");
    purgatory.check();
    assert_eq!((purgatory.stats(), purgatory.engine().len()), (before, timers));
    let checked: usize = keys.iter().map(|key| purgatory.check_and_complete(key)).sum();
    assert_eq!((checked, op.tries(), op.end()), (0, tries, End::Untold));
    error
}

#[test]
fn an_operation_without_keys_comes_back_untried() {
    let (purgatory, _engine) = by_hand();
    let error = refused(&purgatory, &[], 0);
    assert_eq!(error.reason(), WatchReason::NoKeys);
    assert_eq!(format!("{error:?}"), "Refused { reason: NoKeys, .. }");
    assert_eq!(error.to_string(), "an operation waits under at least one key");
    assert_eq!(Arc::strong_count(&error.into_payload()), 1);
}

#[test]
fn a_full_engine_refuses_operations_until_one_that_waits_has_ended() {
    let builder = Engine::builder().shards(1).max_pending(2).manual_clock(&ManualClock::new());
    let engine = builder.build().unwrap();
    let purgatory = Purgatory::with_engine(&engine);
    let ops = [Op::new(), Op::new()];
    let tickets = [0, 1].map(|n| wait(&purgatory, &ops[n], &[1, 2], HOUR));
    let error = refused(&purgatory, &[1, 2, 3], 1);
    assert_eq!(error.reason(), WatchReason::Full);
    assert_eq!(error.to_string(), "as many timers as allowed are pending");
    let op = error.into_payload();
    assert_eq!(Arc::strong_count(&op), 1);
    op.allow();
    let arrival = purgatory.try_complete_else_watch(op, [1], HOUR).unwrap();
    assert!(arrival.is_completed(), "what completes at once needs no room");
    for ticket in tickets {
        assert!(ticket.force_complete());
        wait(&purgatory, &Op::new(), &[4], HOUR);
        assert_eq!(refused(&purgatory, &[4], 1).reason(), WatchReason::Full);
    }
}

#[test]
fn a_purgatory_that_stopped_refuses_operations_but_such_as_complete_at_once() {
    for stops_engine in [false, true] {
        let (purgatory, engine) = by_hand();
        wait(&purgatory, &Op::new(), &[1], HOUR);
        match stops_engine {
            true => assert_eq!(engine.stop().unwrap().len(), 1),
            false => assert_eq!(purgatory.stop().len(), 1),
        }
        let error = refused(&purgatory, &[1, 2], 1);
        assert_eq!(error.reason(), WatchReason::Stopped);
        assert_eq!(error.to_string(), "the purgatory or its engine has stopped");
        let op = error.into_payload();
        assert_eq!(Arc::strong_count(&op), 1);
        op.allow();
        assert!(purgatory.try_complete_else_watch(op, [1], HOUR).unwrap().is_completed());
        assert_eq!(refused(&purgatory, &[], 0).reason(), WatchReason::NoKeys);
    }
}

// === cancelled and returned ===

#[test]
fn cancelling_for_a_key_returns_who_waited_there_and_lets_go_of_them_everywhere() {
    let (purgatory, engine) = by_hand();
    let ops = [Op::new(), Op::new(), Op::new()];
    let keys: [&[u32]; 3] = [&[1, 2], &[1], &[2]];
    let _tickets = [0, 1, 2].map(|n| wait(&purgatory, &ops[n], keys[n], MS));
    assert!(purgatory.cancel_for_key(&3).is_empty(), "nobody ever waited there");
    let cancelled = purgatory.cancel_for_key(&1);
    assert!(cancelled.iter().map(Arc::as_ptr).eq(ops[..2].iter().map(Arc::as_ptr)));
    assert_eq!((purgatory.len(), purgatory.watched(), engine.len()), (1, 1, 1));
    assert!(purgatory.cancel_for_key(&1).is_empty());
    ops.iter().for_each(|op| op.allow());
    assert_eq!((engine.advance(MS), purgatory.check_and_complete(&2)), (Ok(1), 0));
    let ends = ops.each_ref().map(|op| (op.tries(), op.end()));
    assert_eq!(ends, [(2, End::Untold), (2, End::Untold), (2, End::Expired)]);
    assert_eq!(purgatory.stats().cancelled, 2);
    purgatory.check();
}

#[test]
fn stopping_returns_each_operation_once_and_later_nothing() {
    let (purgatory, engine) = by_hand();
    let weak = crowd(&purgatory, 300);
    let clone = purgatory.clone();
    let returned = clone.stop();
    assert_eq!((returned.len(), purgatory.len(), engine.len()), (300, 0, 0));
    let mut there: Vec<_> = returned.iter().map(Arc::as_ptr).collect();
    let mut known: Vec<_> = weak.iter().map(Weak::as_ptr).collect();
    there.sort_unstable();
    known.sort_unstable();
    assert_eq!(there, known);
    assert!(returned.iter().all(|op| op.end() == End::Untold && Arc::strong_count(op) == 1));
    assert!(purgatory.stop().is_empty() && purgatory.cancel_for_key(&1).is_empty());
    assert_eq!((engine.advance(HOUR * 4), purgatory.stats().cancelled), (Ok(0), 300));
    purgatory.check();
    drop(returned);
    assert!(all_gone(&weak));
}

// === who outlives whom ===

#[test]
fn dropping_the_last_clone_lets_everything_go() {
    let (purgatory, engine) = by_hand();
    let weak = crowd(&purgatory, 300);
    let clone = purgatory.clone();
    drop(purgatory);
    assert_eq!((engine.len(), all_gone(&weak)), (300, false), "a clone keeps it");
    let op = Op::new();
    let ticket = wait(&clone, &op, &[1, 2], HOUR);
    drop(clone);
    assert_eq!((engine.len(), all_gone(&weak)), (0, true));
    // The ticket outlives its purgatory.
    assert!(!ticket.force_complete() && !ticket.cancel());
    assert_eq!((ticket.decision(), op.end()), (Some(Decision::Cancelled), End::Untold));
    assert_eq!(Arc::strong_count(&op), 2);
    drop((ticket, engine));
    assert_eq!(Arc::strong_count(&op), 1);
}

#[test]
fn the_last_clone_may_go_in_a_callback_on_its_own_engines_thread() {
    for in_call in [Call::Complete, Call::Expire] {
        // An engine of its own, which ends there too. No thread takes over from its reaper.
        let engine = Engine::builder().shards(1).takeover(None).build().unwrap();
        let purgatory = Keyed::with_engine(&engine);
        drop(engine);
        let weak = crowd(&purgatory, 300);
        let (give, given) = mpsc::channel::<Keyed>();
        let (inside, (done, is_done)) = (Mutex::new(given), mpsc::channel());
        let op = Op::with(move |_, call| {
            if call == in_call {
                drop(inside.lock().unwrap().recv_timeout(PATIENCE).unwrap());
                done.send(()).unwrap();
            }
        });
        // The reaper is busy until the operation is registered, so that it expires there.
        let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel());
        let busy = move || {
            begin.send(()).unwrap();
            ended.recv_timeout(PATIENCE).unwrap();
        };
        purgatory.engine().schedule_detached(Duration::ZERO, busy).unwrap();
        begun.recv_timeout(PATIENCE).unwrap();
        let ticket = wait(&purgatory, &op, &[1, 2], MS);
        give.send(purgatory).unwrap();
        end.send(()).unwrap();
        assert_eq!(is_done.recv_timeout(PATIENCE), Ok(()));
        assert!(all_gone(&weak));
        assert_eq!(ticket.decision(), Some(Decision::Expired));
    }
}

#[test]
fn purgatories_that_share_an_engine_do_not_know_each_others_keys() {
    let (one, engine) = by_hand();
    let other: Keyed = Purgatory::with_engine(&engine);
    let ops = [Op::new(), Op::new()];
    wait(&one, &ops[0], &[1], MS);
    wait(&other, &ops[1], &[1], MS * 2);
    ops.iter().for_each(|op| op.allow());
    assert_eq!((engine.len(), one.len(), other.len()), (2, 1, 1));
    assert_eq!((one.check_and_complete(&1), other.stop().len()), (1, 1));
    assert_eq!(ops.each_ref().map(|op| op.end()), [End::Completed, End::Untold]);
    let op = Op::new();
    wait(&one, &op, &[1], MS);
    drop(other);
    assert_eq!((engine.advance(MS), op.end()), (Ok(1), End::Expired), "the engine goes on");
}

#[test]
fn what_an_engine_returns_when_it_stops_still_expires_its_operation_or_leaves_it_waiting() {
    let (purgatory, engine) = by_hand();
    let [runs, ends_before, stays] = [Op::new(), Op::new(), Op::new()];
    let [_, ends, _] = [(&runs, 1), (&ends_before, 2), (&stays, 3)]
        .map(|(op, ms)| wait(&purgatory, op, &[ms], MS * ms));
    let mut tasks = engine.stop().unwrap();
    assert_eq!((tasks.len(), purgatory.len()), (3, 3));
    assert!(ends.force_complete());
    drop(ends);
    // Which task is whose, nobody says: all run but one.
    let last = tasks.pop().unwrap();
    tasks.into_iter().for_each(|task| task.run());
    assert_eq!(ends_before.end(), End::Completed);
    drop(last);
    let waiting = [&runs, &stays].into_iter().filter(|op| op.end() == End::Untold).count();
    assert_eq!(waiting, purgatory.len());
    for (op, key) in [(&runs, 1), (&stays, 3)] {
        op.allow();
        let is_waiting = op.end() == End::Untold;
        assert_eq!(purgatory.check_and_complete(&key), usize::from(is_waiting));
        assert_ne!(op.end(), End::Untold);
        assert_eq!(Arc::strong_count(op), 1);
    }
    let stats = purgatory.stats();
    assert_eq!(stats.completed as usize + stats.expired as usize, 3);
    purgatory.check();
}
