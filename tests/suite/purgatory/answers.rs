//! The purgatory, one thread at a time on a clock that is moved by hand: what is asked of it, and
//! what it answers, tells and counts.

use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use super::waiting::wait;
use support::by_hand::by_hand;
use support::operation::{Call, End, Op};
use support::random::Random;
use tickless::{Engine, ManualClock};
use tickless_purgatory::{Arrival, Decision, Operation, Purgatory};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

type Keyed = Purgatory<&'static str, Op>;

/// Waits for all its things, and answers with how many there are.
#[derive(Default)]
struct All {
    things: [OnceLock<usize>; 2],
    answer: OnceLock<usize>,
}

impl Operation for All {
    fn try_complete(&self) -> bool {
        self.things.iter().all(|thing| thing.get().is_some())
    }

    fn on_complete(&self) {
        self.answer.set(self.things.iter().flat_map(OnceLock::get).count()).unwrap();
    }
}

#[track_caller]
fn assert_counts(purgatory: &Keyed, delayed: usize, watched: usize, keys: usize) {
    purgatory.check();
    let stats = purgatory.stats();
    assert_eq!((stats.delayed, stats.watched, stats.keys), (delayed, watched, keys));
    assert_eq!((purgatory.len(), purgatory.watched()), (delayed, watched));
    assert_eq!(purgatory.is_empty(), delayed == 0);
    assert_eq!(purgatory.engine().len(), delayed, "each that waits has a timer, and nobody else");
}

/// How many completed, expired and were cancelled.
fn ended(purgatory: &Keyed) -> (u64, u64, u64) {
    let stats = purgatory.stats();
    assert_eq!(stats.panicked, 0);
    (stats.completed, stats.expired, stats.cancelled)
}

// === registration ===

#[test]
fn an_operation_that_can_complete_does_so_on_the_spot_and_waits_nowhere() {
    let (purgatory, _engine) = by_hand();
    let here = thread::current().id();
    let op = Op::with(move |_, _| assert_eq!(thread::current().id(), here));
    op.allow();
    let arrival = purgatory.try_complete_else_watch(op.clone(), ["a", "b"], HOUR).unwrap();
    assert!(arrival.is_completed() && arrival.clone().into_delayed().is_none());
    assert_eq!(format!("{arrival:?}"), "Completed");
    assert_eq!((op.tries(), op.end(), Arc::strong_count(&op)), (1, End::Completed, 1));
    assert_counts(&purgatory, 0, 0, 0);
    assert_eq!(ended(&purgatory), (0, 0, 0), "it never waited");
    assert_eq!(purgatory.check_and_complete("a"), 0);
}

#[test]
fn an_operation_is_tried_once_before_it_is_watched_and_once_after() {
    let (purgatory, _engine) = by_hand();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (log, inside) = (seen.clone(), purgatory.clone());
    let op = Op::with(move |_, call| {
        if call == Call::Try {
            log.lock().unwrap().push((inside.len(), inside.watched()));
        }
    });
    let ticket = wait(&purgatory, &op, &["a", "b", "c"], HOUR);
    assert_eq!(*seen.lock().unwrap(), [(0, 0), (1, 3)]);
    assert!(ticket.cancel(), "it has a clone of its purgatory, which is a circle");
}

#[test]
fn what_changes_before_the_second_try_completes_the_operation_there() {
    let (purgatory, _engine) = by_hand();
    let op = Op::with(|op, _| op.allow());
    let arrival = purgatory.try_complete_else_watch(op.clone(), ["a", "b"], HOUR).unwrap();
    assert!(arrival.is_completed());
    assert_eq!((op.tries(), op.end(), Arc::strong_count(&op)), (2, End::Completed, 1));
    assert_counts(&purgatory, 0, 0, 0);
    assert_eq!(ended(&purgatory), (1, 0, 0));
}

#[test]
fn an_operation_that_is_decided_while_it_is_registered_is_watched_under_no_more_keys() {
    let (purgatory, engine) = by_hand();
    let op = Op::new();
    let cancel_at_the_third = ["a", "b", "c", "d"].into_iter().inspect(|&key| {
        assert_ne!(key, "d", "nobody asks for more");
        if key == "c" {
            let cancelled = purgatory.cancel_for_key("a");
            assert!(cancelled.len() == 1 && Arc::ptr_eq(&cancelled[0], &op));
        }
    });
    let arrival = purgatory.try_complete_else_watch(op.clone(), cancel_at_the_third, HOUR);
    let Ok(Arrival::Delayed(ticket)) = arrival else { panic!("somebody else decided it") };
    assert_eq!(ticket.decision(), Some(Decision::Cancelled));
    assert_counts(&purgatory, 0, 0, 0);
    assert_eq!((op.end(), ended(&purgatory)), (End::Untold, (0, 0, 1)));
    assert_eq!(
        (op.tries(), engine.stats().scheduled),
        (1, 0),
        "nor is it asked, or timed, any more"
    );
}

// === checks ===

#[test]
fn a_check_completes_what_can_complete_and_says_how_many_that_were() {
    let (purgatory, _engine) = by_hand();
    let ops = [Op::new(), Op::new()];
    assert_eq!(purgatory.check_and_complete("a"), 0, "nobody ever waited there");
    let tickets =
        [wait(&purgatory, &ops[0], &["a"], HOUR), wait(&purgatory, &ops[1], &["b"], HOUR)];
    assert_eq!([purgatory.check_and_complete("a"), purgatory.check_and_complete("b")], [0, 0]);
    for (op, (key, left)) in ops.iter().zip([("a", 1), ("b", 0)]) {
        op.allow();
        assert_eq!(op.end(), End::Untold, "nobody has checked yet");
        assert_eq!([0, 1].map(|_| purgatory.check_and_complete(key)), [1, 0], "once");
        assert_eq!(op.end(), End::Completed);
        assert_counts(&purgatory, left, left, left);
    }
    assert_eq!(tickets.map(|ticket| ticket.decision()), [Some(Decision::Completed); 2]);
    assert_eq!(ended(&purgatory), (2, 0, 0));
}

#[test]
fn a_check_tries_each_in_the_order_in_which_they_came_over_any_number_of_batches() {
    let (purgatory, _engine) = by_hand();
    let order = Arc::new(Mutex::new(Vec::new()));
    for many in [1, 31, 32, 33, 64, 65, 200] {
        let ops: Vec<_> = (0..many)
            .map(|number| {
                let order = order.clone();
                Op::with(move |_, call| {
                    if call == Call::Complete {
                        order.lock().unwrap().push(number);
                    }
                })
            })
            .collect();
        ops.iter().for_each(|op| drop(wait(&purgatory, op, &["a", "b"], HOUR)));
        let allowed = || (0..many).filter(|number| number % 3 != 1);
        allowed().for_each(|number| ops[number].allow());
        assert_eq!(purgatory.check_and_complete("b"), allowed().count());
        assert!(order.lock().unwrap().drain(..).eq(allowed()));
        assert!(ops.iter().all(|op| op.tries() == 3));
        let rest = (0..many).filter(|number| number % 3 == 1).map(|number| &ops[number]);
        let cancelled = purgatory.cancel_for_key("a");
        assert!(cancelled.iter().map(Arc::as_ptr).eq(rest.map(Arc::as_ptr)));
        assert_counts(&purgatory, 0, 0, 0);
    }
}

#[test]
fn an_operation_that_ends_is_let_go_from_every_key_at_once() {
    let (purgatory, _engine) = by_hand();
    let ops = [Op::new(), Op::new(), Op::new()];
    let keys: [&[&str]; 3] = [&["a"], &["a", "b"], &["a", "b", "c"]];
    let [_, second, _] = [0, 1, 2].map(|n| wait(&purgatory, &ops[n], keys[n], HOUR));
    assert_counts(&purgatory, 3, 6, 3);
    assert!(second.force_complete());
    drop(second);
    assert_counts(&purgatory, 2, 4, 3);
    ops[2].allow();
    assert_eq!(purgatory.check_and_complete("c"), 1);
    assert_counts(&purgatory, 1, 1, 1);
    assert_eq!([0, 1, 2].map(|n| Arc::strong_count(&ops[n])), [2, 1, 1]);
    assert_eq!(["a", "b", "c"].map(|key| purgatory.check_and_complete(key)), [0; 3]);
    assert!(ops[0].tries() == 3 && ops[1].tries() == 2, "only the first was there to be tried");
}

#[test]
fn an_operation_may_wait_for_several_things_of_which_each_has_its_key() {
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    let purgatory = Purgatory::with_engine(&engine);
    let watch = |all: &Arc<All>| {
        let arrival = purgatory.try_complete_else_watch(all.clone(), [0, 1], MS * 2);
        arrival.unwrap().is_completed()
    };
    let all = Arc::new(All::default());
    assert!(!watch(&all));
    for (thing, completed) in [(0, 0), (1, 1)] {
        all.things[thing].set(thing).unwrap();
        assert_eq!(purgatory.check_and_complete(&thing), completed);
    }
    assert_eq!(all.answer.get(), Some(&2));
    assert!(watch(&Arc::new(All { answer: OnceLock::new(), ..Arc::into_inner(all).unwrap() })));

    let late = Arc::new(All::default());
    assert!(!watch(&late));
    late.things[1].set(1).unwrap();
    assert_eq!((purgatory.check_and_complete(&1), late.answer.get()), (0, None));
    assert_eq!((engine.advance(MS * 2), late.answer.get()), (Ok(1), Some(&1)), "what there is");
}

// === timeouts ===

#[test]
fn an_operation_whose_timeout_comes_is_completed_and_then_told_that_it_expired() {
    let (purgatory, engine) = by_hand();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (log, inside) = (calls.clone(), purgatory.clone());
    let op = Op::with(move |_, call| log.lock().unwrap().push((call, inside.watched())));
    let stays = Op::new();
    let _stays = wait(&purgatory, &stays, &["a"], HOUR);
    let ticket = wait(&purgatory, &op, &["a", "b"], MS * 20);
    calls.lock().unwrap().clear();
    assert_eq!(engine.advance(MS * 20 - Duration::from_nanos(1)), Ok(0));
    assert_eq!((op.end(), ticket.decision()), (End::Untold, None));
    assert_eq!(engine.advance(MS), Ok(1));
    assert_eq!(*calls.lock().unwrap(), [(Call::Complete, 1), (Call::Expire, 1)]);
    assert_eq!((op.end(), ticket.decision()), (End::Expired, Some(Decision::Expired)));
    assert_counts(&purgatory, 1, 1, 1);
    assert_eq!((stays.end(), ended(&purgatory)), (End::Untold, (0, 1, 0)));
    assert!(!ticket.force_complete() && !ticket.cancel());
    assert_eq!(purgatory.check_and_complete("b"), 0);
}

#[test]
fn no_operation_expires_before_its_timeout_and_none_a_tick_after_it() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let purgatory: Keyed = Purgatory::with_engine(&engine);
    let random = &mut Random::new(1);
    for n in 0..2000 {
        let timeout = Duration::from_nanos(random.below(1 << (n % 36)));
        let (due, clock) = (clock.elapsed() + timeout, clock.clone());
        let op = Op::with(move |_, call| {
            if call == Call::Expire {
                let late = clock.elapsed().checked_sub(due).expect("not early");
                assert!(late < MS, "{late:?} late");
            }
        });
        wait(&purgatory, &op, &["a"], timeout);
        // From one expiry to the next, as a reaper would sleep.
        let expired = engine.advance(Duration::from_nanos(random.below(3_000_000))).unwrap();
        assert!(expired <= n + 1);
    }
    engine.advance(HOUR).unwrap();
    assert_eq!(ended(&purgatory), (0, 2000, 0));
}

#[test]
fn a_timeout_of_zero_comes_at_once_but_not_during_the_registration() {
    let (purgatory, engine) = by_hand();
    let op = Op::new();
    let ticket = wait(&purgatory, &op, &["a"], Duration::ZERO);
    assert_eq!((op.tries(), ticket.decision()), (2, None));
    assert_eq!((engine.advance(Duration::ZERO), op.end()), (Ok(1), End::Expired));
    assert_counts(&purgatory, 0, 0, 0);
}

#[test]
fn a_timeout_without_end_never_comes_and_a_check_still_does() {
    let (purgatory, engine) = by_hand();
    let op = Op::new();
    let _ticket = wait(&purgatory, &op, &["a"], Duration::MAX);
    for _ in 0..10 {
        assert_eq!(engine.advance(HOUR * 24 * 365), Ok(0));
    }
    op.allow();
    assert_eq!((purgatory.check_and_complete("a"), op.end()), (1, End::Completed));
    assert_counts(&purgatory, 0, 0, 0);
}

// === tickets ===

#[test]
fn a_ticket_forces_or_cancels_once_and_every_other_way_comes_late() {
    let (purgatory, engine) = by_hand();
    for (decision, end) in
        [(Decision::Completed, End::Completed), (Decision::Cancelled, End::Untold)]
    {
        let op = Op::new();
        let ticket = wait(&purgatory, &op, &["a", "b"], MS);
        let clone = ticket.clone();
        assert!(Arc::ptr_eq(ticket.operation(), &op));
        assert!(match decision {
            Decision::Completed => ticket.force_complete(),
            _ => ticket.cancel(),
        });
        assert_eq!((op.tries(), op.end()), (2, end), "it was not asked");
        assert_counts(&purgatory, 0, 0, 0);
        op.allow();
        assert!(!clone.force_complete() && !clone.cancel());
        assert_eq!((engine.advance(MS), purgatory.check_and_complete("a")), (Ok(0), 0));
        assert!(purgatory.cancel_for_key("b").is_empty());
        assert_eq!((clone.decision(), op.end()), (Some(decision), end));
        assert!(format!("{clone:?}").contains(&format!("{decision:?}")));
        drop((ticket, clone));
        assert_eq!(Arc::strong_count(&op), 1);
    }
}
