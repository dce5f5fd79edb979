//! Scopes: what each method does, and how a scope and its engine end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::boxed::Boxed;
use support::hands::engine_by_hand;
use support::mpsc;
use support::patience::PATIENCE;
use support::threads::spawn;
use support::token::{Fates, Token};
use tickless::scope::Scope;
use tickless::{Batch, Builder, Engine, ManualClock, ResetError, State};

const MS: Duration = Duration::from_millis(1);

/// Panics when it is dropped, and counts that.
fn bomb(drops: &Arc<Mutex<u32>>) -> Boxed {
    let drops = drops.clone();
    Boxed::on_drop(move || {
        *drops.lock().unwrap() += 1;
        resume_unwind(Box::new("a payload that does not go quietly"));
    })
}

fn tokens() -> Engine<Token> {
    let run_all = |batch: Batch<'_, Token>| batch.for_each(|token| token.run());
    Builder::new().shards(2).manual_clock(&ManualClock::new()).build_with_handler(run_all).unwrap()
}

fn bombs() -> Engine<Boxed> {
    let drop_all = |batch: Batch<'_, Boxed>| batch.for_each(drop);
    Builder::new().shards(1).manual_clock(&ManualClock::new()).build_with_handler(drop_all).unwrap()
}

/// A scope with a timer for each of the first `timers` milliseconds, and their fates.
fn filled(engine: &Engine<Token>, timers: usize) -> (Scope<Token>, Fates) {
    let (mut scope, fates) = (engine.scope(), Fates::new(timers));
    for number in 0..timers {
        scope.schedule(MS * (number as u32 + 1), fates.token(number)).unwrap();
    }
    (scope, fates)
}

#[test]
fn dropping_a_scope_cancels_ten_thousand_timers_and_no_others() {
    let engine = tokens();
    let outside = Fates::new(1);
    engine.schedule_detached(MS * 9_000, outside.token(0)).unwrap();
    let (scope, fates) = filled(&engine, 10_000);
    assert_eq!(engine.advance(MS * 4_000), Ok(4_000));
    assert_eq!((scope.len(), scope.is_empty()), (6_000, false));
    drop(scope);
    assert_eq!(engine.len(), 1);
    assert!((0..4_000).all(|number| fates.of(number) == (1, 1)));
    assert!((4_000..10_000).all(|number| fates.of(number) == (0, 1)));
    assert_eq!(engine.advance(MS * 10_000), Ok(1));
    assert_eq!(outside.of(0), (1, 1));
}

#[test]
fn a_scope_that_has_cancelled_all_can_be_used_again() {
    let engine = tokens();
    let (mut scope, fates) = filled(&engine, 10);
    engine.advance(MS * 3).unwrap();
    assert_eq!(scope.cancel_all(), 7);
    assert!(scope.is_empty() && engine.is_empty());
    assert_eq!(scope.cancel_all(), 0);
    let again = Fates::new(1);
    let key = scope.schedule(MS, again.token(0)).unwrap();
    assert!(scope.is_pending(key));
    assert_eq!(engine.advance(MS), Ok(1));
    assert!((0..10).all(|number| fates.of(number) == (u32::from(number < 3), 1)));
}

#[test]
fn taking_all_returns_the_payloads_of_those_that_were_pending() {
    let engine = tokens();
    let (mut scope, fates) = filled(&engine, 10);
    engine.advance(MS * 3).unwrap();
    let mut taken: Vec<usize> = scope.take_all().iter().map(|token| token.number).collect();
    taken.sort_unstable();
    assert_eq!(taken, [3, 4, 5, 6, 7, 8, 9]);
    assert!(scope.is_empty() && engine.is_empty());
    assert!((3..10).all(|number| fates.of(number) == (0, 1)));
}

#[test]
fn a_detached_scope_lets_its_timers_fire() {
    let engine = tokens();
    let (scope, fates) = filled(&engine, 10);
    scope.detach();
    assert_eq!(engine.advance(MS * 10), Ok(10));
    assert!((0..10).all(|number| fates.of(number) == (1, 1)));
}

#[test]
fn a_timer_that_was_removed_is_no_longer_the_scopes() {
    let engine = tokens();
    let (mut scope, fates) = (engine.scope(), Fates::new(3));
    let [kept, removed, fired] =
        [2, 3, 1].map(|n| scope.schedule(MS * n, fates.token(n as usize - 1)).unwrap());
    let handle = scope.remove(removed).unwrap();
    assert!(scope.remove(removed).is_none() && !scope.is_pending(removed));
    engine.advance(MS).unwrap();
    assert!(scope.remove(fired).is_none(), "it is over");
    drop(scope);
    assert_eq!(handle.state(), State::Pending);
    assert_eq!(engine.advance(MS * 3), Ok(1));
    assert_eq!([0, 1, 2].map(|number| fates.of(number)), [(1, 1), (0, 1), (1, 1)]);
    let _ = kept;
}

#[test]
fn the_key_of_a_timer_that_is_over_never_finds_a_later_one() {
    let engine = engine_by_hand();
    let mut scope = engine.scope();
    let mut over = Vec::new();
    for round in 0..200_u32 {
        let key = scope.schedule(MS, || ()).unwrap();
        match round % 5 {
            0 => assert!(scope.cancel(key)),
            1 => assert!(scope.take(key).is_some()),
            2 => assert_eq!(scope.cancel_all(), 1),
            3 => drop(scope.remove(key).map(|handle| assert!(handle.cancel()))),
            _ => assert_eq!(engine.advance(MS), Ok(1)),
        }
        over.push(key);
        let now = scope.schedule(MS * 5_000, || ()).unwrap();
        for &old in &over {
            assert!(!scope.is_pending(old) && scope.deadline(old).is_none());
            assert_eq!(scope.reset(old, MS * 9), Err(ResetError::TooLate));
            assert!(!scope.cancel(old) && scope.take(old).is_none());
            assert!(scope.remove(old).is_none());
        }
        assert_eq!(scope.deadline(now), Some(engine.now() + MS * 5_000));
        assert_eq!(scope.len(), 1);
        assert!(scope.cancel(now));
    }
}

#[test]
fn a_reset_keeps_the_key_whichever_way_it_goes() {
    let engine = engine_by_hand();
    let mut scope = engine.scope();
    let key = scope.schedule(MS * 5_000, || ()).unwrap();
    for delay in [9_000, 10, 60_000, 1, 4] {
        scope.reset(key, MS * delay).unwrap();
        assert_eq!(scope.deadline(key), Some(engine.now() + MS * delay));
        assert_eq!(engine.len(), 1);
    }
    assert_eq!(engine.advance(MS * 3), Ok(0));
    assert_eq!(engine.advance(MS), Ok(1));
    assert_eq!(scope.reset(key, MS), Err(ResetError::TooLate));
}

#[test]
fn a_full_engine_returns_the_payload_and_the_scope_is_as_before() {
    let engine = Engine::builder().manual_clock(&ManualClock::new()).max_pending(2);
    let engine = engine.build().unwrap();
    let mut scope = engine.scope();
    let keys = [1, 2].map(|n| scope.schedule(MS * n, || ()).unwrap());
    assert!(scope.schedule(MS, || ()).unwrap_err().is_full());
    assert_eq!(scope.len(), 2);
    assert!(scope.cancel(keys[0]));
    scope.schedule(MS, || ()).unwrap();
    assert_eq!(scope.cancel_all(), 2);
}

#[test]
fn a_panic_of_a_payload_spares_no_other() {
    let engine = bombs();
    let drops = Arc::new(Mutex::new(0));
    let fill = |scope: &mut Scope<Boxed>| {
        (0..100).for_each(|n| drop(scope.schedule(MS * (1 + n), bomb(&drops))));
    };
    let mut scope = engine.scope();
    fill(&mut scope);
    assert!(catch_unwind(AssertUnwindSafe(|| scope.cancel_all())).is_err(), "the first goes on");
    assert_eq!((*drops.lock().unwrap(), engine.len(), scope.len()), (100, 0, 0));
    fill(&mut scope);
    drop(scope);
    assert_eq!((*drops.lock().unwrap(), engine.len()), (200, 0));
}

#[test]
fn a_scope_that_is_dropped_in_a_panic_cancels_all_the_same() {
    let engine = bombs();
    let drops = Arc::new(Mutex::new(0));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut scope = engine.scope();
        (0..10).for_each(|n| drop(scope.schedule(MS * n, bomb(&drops))));
        resume_unwind(Box::new("a connection's handler"));
    }));
    let panic = panicked.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a connection's handler"));
    assert_eq!((*drops.lock().unwrap(), engine.len()), (10, 0));
}

#[test]
fn a_stop_returns_the_payloads_of_scopes_too() {
    let engine = tokens();
    let (mut scope, fates) = filled(&engine, 10);
    let key = scope.schedule(MS, Fates::new(1).token(0)).unwrap();
    assert_eq!(engine.stop().unwrap().len(), 11);
    assert_eq!((scope.len(), scope.is_pending(key), scope.deadline(key)), (0, false, None));
    assert_eq!(scope.reset(key, MS * 7), Err(ResetError::Stopped));
    let refused = scope.schedule(MS, Fates::new(1).token(0)).unwrap_err();
    assert!(refused.is_stopped());
    assert!(scope.take(key).is_none());
    assert_eq!((scope.cancel_all(), scope.take_all().len()), (0, 0));
    assert!((0..10).all(|number| fates.of(number) == (0, 1)));
}

#[test]
fn a_scope_keeps_no_engine_alive_and_may_outlive_it() {
    let engine = tokens();
    let (mut scope, fates) = filled(&engine, 10);
    drop(engine);
    assert!((0..10).all(|number| fates.of(number) == (0, 1)), "with the engine");
    assert!(scope.schedule(MS, Fates::new(1).token(0)).unwrap_err().is_stopped());
    // On a thread that has never seen the engine, too.
    let there = move || {
        assert!(scope.schedule(MS, Fates::new(1).token(0)).unwrap_err().is_stopped());
        assert!(scope.is_empty());
    };
    spawn(there).join().unwrap();
}

#[test]
fn a_task_may_drop_the_scope_that_it_belongs_to() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let place = Arc::new(Mutex::new(None));
    let (sender, receiver) = mpsc::channel();
    let (inside, of_engine) = (place.clone(), engine.clone());
    let mut scope = engine.scope();
    let close = scope.schedule(Duration::MAX, move || {
        drop(inside.lock().unwrap().take());
        sender.send(of_engine.len()).unwrap();
    });
    scope.schedule(Duration::from_secs(3600), || ()).unwrap();
    let mut locked = place.lock().unwrap();
    scope.reset(close.unwrap(), MS).unwrap();
    *locked = Some(scope);
    drop(locked);
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(0));
}
