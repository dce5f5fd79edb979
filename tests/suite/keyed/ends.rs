//! How keyed timers end otherwise: with their engine, with their last clone, from inside tasks, in
//! panics, and out of a queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use support::keyed_timers::by_hand;
use support::mpsc;
use support::patience::PATIENCE;
use support::planned::{Planned, panic_as_planned, quietly};
use support::token::{Fates, Token};
use tickless::{Engine, StopError};
use tickless_keyed::{IfAbsentReason, KeyedTimers, ResetError, Scheduled};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

fn run(token: Token) -> impl FnOnce() + Send + 'static {
    move || token.run()
}

// === stops ===

#[test]
fn what_a_stopped_engine_returns_still_waits_until_it_is_run_or_dropped() {
    let (timers, engine) = by_hand();
    let fates = Fates::new(4);
    for key in 0..4 {
        timers.schedule_keyed(key, (key as u32 + 1) * MS, run(fates.token(key))).unwrap();
    }
    let mut returned = engine.stop().unwrap();
    assert_eq!((returned.len(), timers.len(), engine.len()), (4, 4, 0));
    assert!(timers.cancel(&0) && !timers.contains_key(&0));
    assert_eq!(fates.of(0), (0, 1));
    let taken = timers.take(&1).unwrap();
    assert_eq!(timers.reset(&2, HOUR), Err(ResetError::Stopped));
    returned.pop().unwrap().run();
    returned.drain(..).for_each(drop);
    let ran: u32 = (0..4).map(|key| fates.of(key).0).sum();
    assert!(ran <= 1, "one was run, unless it is one of those that were cancelled");
    assert!(timers.is_empty() && fates.of(1) == (0, 0));
    taken.run();
    assert!((0..4).all(|key| fates.of(key).1 == 1));
}

#[test]
fn a_stopped_engine_refuses_and_gives_the_task_back() {
    let (timers, engine) = by_hand::<u32>();
    let fates = Fates::new(2);
    let returned = {
        timers.schedule_keyed(7, MS, || ()).unwrap();
        engine.stop().unwrap()
    };
    match timers.schedule_keyed(7, MS, run(fates.token(0))) {
        Err(error) if error.is_stopped() => error.into_payload().run(),
        other => panic!("{other:?}"),
    }
    assert!(timers.contains_key(&7), "a refusal changes nothing");
    match timers.schedule_if_absent(8, MS, run(fates.token(1))) {
        Err(error) if error.reason() == IfAbsentReason::Stopped => error.into_payload().run(),
        other => panic!("{other:?}"),
    }
    assert_eq!((fates.of(0), fates.of(1)), ((1, 1), (1, 1)));
    drop(returned);
    assert!(timers.is_empty() && timers.reset(&7, MS) == Err(ResetError::Absent));
}

#[test]
fn a_task_cannot_stop_its_own_engine_and_may_drop_the_last_of_its_timers() {
    let timers = KeyedTimers::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let (own, last_is_dropped) = (timers.clone(), Arc::new(()));
    let other = last_is_dropped.clone();
    timers.schedule_keyed("other", HOUR, move || drop(other)).unwrap();
    let (let_go, is_let_go) = mpsc::channel::<()>();
    let task = move || {
        is_let_go.recv().unwrap_err();
        let answer = own.engine().stop().unwrap_err();
        // The last of them, and so the engine ends with it, after the task.
        drop(own);
        sender.send(answer).unwrap();
    };
    timers.schedule_keyed("own", MS, task).unwrap();
    drop(timers);
    drop(let_go);
    assert!(matches!(receiver.recv_timeout(PATIENCE), Ok(StopError::InsideTask)));
    assert_eq!(Arc::strong_count(&last_is_dropped), 1, "what waited went with the timers");
}

// === the last clone ===

#[test]
fn with_the_last_clone_what_waits_is_cancelled_and_dropped() {
    quietly();
    struct Panics(Token);
    impl Drop for Panics {
        fn drop(&mut self) {
            panic_as_planned();
        }
    }
    let (timers, engine) = by_hand::<u32>();
    let fates = Fates::new(3);
    timers.schedule_keyed(0, MS, run(fates.token(0))).unwrap();
    let panics = Panics(fates.token(1));
    timers.schedule_keyed(1, MS, move || panics.0.run()).unwrap();
    timers.schedule_keyed(2, MS, run(fates.token(2))).unwrap();
    let clone = timers.clone();
    drop(timers);
    assert_eq!((clone.len(), engine.len()), (3, 3));
    drop(clone);
    assert_eq!(engine.len(), 0);
    engine.advance(HOUR).unwrap();
    assert!((0..3).all(|key| fates.of(key) == (0, 1)), "no panic kept the others from it");
}

#[test]
fn a_task_that_holds_a_clone_keeps_the_timers_until_it_has_run() {
    let (timers, engine) = by_hand::<u32>();
    let fates = Fates::new(1);
    timers.schedule_keyed(0, 2 * MS, run(fates.token(0))).unwrap();
    let clone = timers.clone();
    timers.schedule_keyed(1, MS, move || assert!(clone.contains_key(&0))).unwrap();
    drop(timers);
    assert_eq!(engine.len(), 2);
    engine.advance(MS).unwrap();
    assert_eq!((engine.len(), fates.of(0), engine.stats().panicked), (0, (0, 1), 0));
}

#[test]
fn timers_with_an_engine_of_their_own_end_it() {
    let timers = KeyedTimers::<u32>::new().unwrap();
    let witness = Arc::new(());
    let held = witness.clone();
    timers.schedule_keyed(7, HOUR, move || drop(held)).unwrap();
    let handle = timers.engine().schedule(HOUR, || ()).unwrap();
    drop(timers);
    assert_eq!(Arc::strong_count(&witness), 1);
    assert!(!handle.cancel(), "the engine is gone");
}

// === from a queue ===

#[test]
fn what_the_reaper_has_taken_out_can_be_cancelled_replaced_and_moved_until_it_begins() {
    // No thread takes the others over meanwhile.
    let engine = Engine::builder().shards(1).takeover(None).build().unwrap();
    let timers = KeyedTimers::with_engine(&engine);
    let fates = Fates::new(4);
    // The reaper is busy until all are scheduled.
    let ((hold, is_held), (let_go, is_let_go)) = (mpsc::channel(), mpsc::channel::<()>());
    let busy = move || {
        hold.send(()).unwrap();
        is_let_go.recv().unwrap_err();
    };
    engine.schedule_detached(Duration::ZERO, busy).unwrap();
    is_held.recv_timeout(PATIENCE).unwrap();
    // All are due at one tick; the first to run keeps the others waiting, on the reaper.
    let at = engine.now();
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::sync_channel::<()>(0);
    let may_go_on = Arc::new(Mutex::new(may_go_on));
    for key in 0..4 {
        let (token, begun, may_go_on) = (fates.token(key), begun.clone(), may_go_on.clone());
        let task = move || {
            token.run();
            begun.send(key).unwrap();
            may_go_on.lock().unwrap().recv().unwrap();
        };
        timers.schedule_keyed(key, at, task).unwrap();
    }
    drop(let_go);
    let first = has_begun.recv_timeout(PATIENCE).unwrap();
    assert!(!timers.cancel(&first), "it has begun");
    assert_eq!(fates.of(first), (1, 0));
    let others: Vec<usize> = (0..4).filter(|key| *key != first).collect();
    assert!(timers.cancel(&others[0]));
    assert_eq!(fates.of(others[0]), (0, 1), "dropped at once");
    let scheduled = timers.schedule_keyed(others[1], HOUR, || ()).unwrap();
    assert_eq!(scheduled, Scheduled::Replaced);
    assert_eq!(timers.reset(&others[2], HOUR), Ok(()));
    go_on.send(()).unwrap();
    // A tick later, the batch is over.
    let (sender, receiver) = mpsc::channel();
    timers.schedule_keyed(9, MS, move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    assert_eq!(fates.of(first), (1, 1));
    assert_eq!((fates.of(others[1]), fates.of(others[2])), ((0, 1), (0, 0)));
    assert_eq!(timers.len(), 2);
}

// === panics ===

#[test]
fn a_task_that_panics_is_counted_and_its_key_is_free() {
    quietly();
    let (timers, engine) = by_hand::<u32>();
    timers.schedule_keyed(7, MS, || panic_as_planned()).unwrap();
    engine.advance(MS).unwrap();
    assert_eq!((engine.stats().panicked, timers.len(), timers.contains_key(&7)), (1, 0, false));
    assert_eq!(timers.schedule_keyed(7, MS, || ()).unwrap(), Scheduled::New);
}

/// Panics when it is dropped, and says so before.
struct Bomb(Arc<AtomicU32>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic_as_planned();
    }
}

#[test]
fn a_task_that_panics_when_it_is_dropped_does_so_last() {
    quietly();
    let (timers, engine) = by_hand::<u32>();
    let drops = Arc::new(AtomicU32::new(0));
    let bomb = |key| {
        let bomb = Bomb(drops.clone());
        timers.schedule_keyed(key, HOUR, move || drop(bomb))
    };
    let panics = |f: &dyn Fn()| {
        assert!(catch_unwind(AssertUnwindSafe(f)).unwrap_err().is::<Planned>());
    };
    bomb(7).unwrap();
    panics(&|| assert!(timers.cancel(&7)));
    assert_eq!((timers.len(), engine.len(), drops.load(Ordering::SeqCst)), (0, 0, 1));
    bomb(7).unwrap();
    panics(&|| drop(timers.schedule_keyed(7, HOUR, || ())));
    assert_eq!((timers.len(), engine.len(), drops.load(Ordering::SeqCst)), (1, 1, 2));
    for key in 0..9 {
        bomb(key).unwrap();
    }
    panics(&|| assert_eq!(timers.cancel_all(), 9));
    assert_eq!((timers.len(), engine.len(), drops.load(Ordering::SeqCst)), (0, 0, 11));
    engine.check().unwrap();
}

#[test]
fn a_task_may_use_the_timers_when_it_is_dropped() {
    /// Schedules anew under its own key.
    struct Phoenix(KeyedTimers<u32>, u32);
    impl Drop for Phoenix {
        fn drop(&mut self) {
            if self.1 > 0 {
                let next = Phoenix(self.0.clone(), self.1 - 1);
                self.0.schedule_if_absent(7, HOUR, move || drop(next)).unwrap();
            }
        }
    }
    let (timers, engine) = by_hand::<u32>();
    drop(Phoenix(timers.clone(), 3));
    for _ in 0..2 {
        assert!(timers.cancel(&7) && timers.contains_key(&7));
    }
    assert!(timers.cancel(&7) && timers.is_empty() && engine.is_empty());
}

#[test]
fn an_engine_that_is_dropped_with_its_tasks_frees_their_keys() {
    // The engine's last clone is in the timers, and what it returns goes to nobody.
    let fates = Fates::new(2);
    let timers = KeyedTimers::new().unwrap();
    for key in 0..2 {
        timers.schedule_keyed(key, HOUR, run(fates.token(key))).unwrap();
    }
    drop(timers.engine().stop());
    assert!(timers.is_empty() && (0..2).all(|key| fates.of(key) == (0, 1)));
}
