//! Scopes whose tasks are waited for: after the wait nothing of any of them is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::mpsc::{self, channel};
use support::parking::block_on;
use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use support::random::{Random, dawdle};
use support::scaled;
use support::slow::Slow;
use support::threads::spawn;
use support::token::Fates;
use tickless::dispatch::{Full, Pool};
use tickless::scope::{Key, WaitableScope};
use tickless::wait::{Guarded, Stage, WaitError};
use tickless::{Batch, Builder, Engine, ManualClock, ResetError};
use tickless_sync::Mutex;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn manual() -> (Engine, ManualClock) {
    let clock = ManualClock::new();
    (Engine::builder().shards(1).manual_clock(&clock).build().unwrap(), clock)
}

fn threaded() -> Builder {
    Builder::new().tick(20 * US).shards(2)
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_as_planned();
    }
}

/// A scope with a task that runs until it is released.
fn with_slow(engine: &Engine) -> (WaitableScope, Slow, Key) {
    let (mut scope, (slow, task)) = (engine.waitable_scope(), Slow::task());
    let key = scope.schedule(Duration::ZERO, task).unwrap();
    slow.has_begun();
    (scope, slow, key)
}

#[test]
fn a_scope_knows_its_timers_by_their_keys() {
    let (engine, _clock) = manual();
    let mut scope = engine.waitable_scope();
    assert!(scope.is_empty());
    let keys = [1, 2, 3, 4].map(|ms| scope.schedule(MS * ms, || ()).unwrap());
    assert_eq!(scope.deadline(keys[1]), Some(engine.now() + MS * 2));
    assert!(scope.cancel(keys[0]) && !scope.cancel(keys[0]), "it is cancelled once");
    assert_eq!(scope.stage(keys[0]), None);
    assert_eq!(scope.reset(keys[0], MS), Err(ResetError::TooLate));
    assert_eq!(scope.reset(keys[1], MS * 20), Ok(()));
    assert_eq!(scope.len(), 3);
    let removed = scope.remove(keys[2]).unwrap();
    assert_eq!((scope.len(), removed.stage()), (2, Stage::Pending));
    assert_eq!(engine.advance(MS * 10), Ok(2));
    assert_eq!(removed.stage(), Stage::Finished);
    assert_eq!((scope.stage(keys[3]), scope.stage(keys[1])), (None, Some(Stage::Pending)));
    assert!(scope.remove(keys[3]).is_none() && !scope.cancel(keys[3]));
    scope.take(keys[1]).unwrap().run();
    assert_eq!((engine.len(), scope.len(), scope.cancel_all()), (0, 0, 0));
}

#[test]
fn values_are_scoped_as_tasks_are() {
    let (sender, used) = channel();
    let clock = ManualClock::new();
    let handler = move |batch: Batch<'_, Guarded<u32>>| {
        batch.for_each(|guarded| _ = guarded.run(|value| sender.send(value).unwrap()));
    };
    let engine = Engine::builder().manual_clock(&clock).build_with_handler(handler).unwrap();
    let mut scope = engine.waitable_scope();
    let keys = [1, 2, 3].map(|value| scope.schedule(MS * value, value).unwrap());
    assert_eq!(scope.take(keys[1]), Some(2));
    assert_eq!(engine.advance(MS), Ok(1));
    assert_eq!(scope.cancel_wait(), Ok(()));
    assert_eq!((engine.len(), used.try_iter().collect::<Vec<_>>()), (0, vec![1]));
    // It can be used again, and those that are detached fire.
    scope.schedule(MS, 7).unwrap();
    scope.detach();
    assert_eq!(engine.advance(MS), Ok(1));
    engine.stop().unwrap();
    let refused = engine.waitable_scope().schedule(MS, 9).unwrap_err();
    assert_eq!(refused.into_payload(), 9);
}

#[test]
fn a_wait_ends_when_the_last_task_has() {
    let engine = threaded().build().unwrap();
    for _ in 0..scaled(20) {
        let (mut scope, slow, key) = with_slow(&engine);
        scope.schedule(HOUR, || ()).unwrap();
        assert_eq!((scope.stage(key), scope.len()), (Some(Stage::Running), 2));
        assert!(!scope.cancel(key), "it runs");
        assert_eq!(scope.cancel_wait_within(50 * US), Err(WaitError::TimedOut));
        assert_eq!((scope.len(), engine.len()), (1, 0), "the other is cancelled");
        let (ends, ended) = channel();
        let waits = spawn(move || {
            ends.send((scope.cancel_wait(), scope.is_empty())).unwrap();
        });
        assert!(ended.try_recv().is_err(), "it still runs");
        slow.release();
        assert_eq!(ended.recv_timeout(PATIENCE).unwrap(), (Ok(()), true));
        waits.join().unwrap();
    }
}

#[test]
fn a_future_waits_for_all_tasks() {
    let engine = threaded().build().unwrap();
    let (mut scope, slow, _) = with_slow(&engine);
    let others = engine.waitable_scope();
    drop(others);
    {
        let pending = scope.cancelled();
        // It was cancelled when the future was made, and the wait can be given up.
        drop(pending);
    }
    let ends = spawn(move || block_on(scope.cancelled()));
    slow.release();
    assert_eq!(ends.join().unwrap(), Ok(()));
}

#[test]
fn a_task_that_ends_its_own_scope_is_told_that_it_cannot_wait() {
    let engine = threaded().build().unwrap();
    let scope = Arc::new(Mutex::new(engine.waitable_scope()));
    let (sender, receiver) = mpsc::channel();
    let (inside, fates) = (Arc::downgrade(&scope), Fates::new(1));
    let token = fates.token(0);
    let task = move || {
        let scope = inside.upgrade().unwrap();
        let mut scope = scope.lock().unwrap();
        sender.send((scope.cancel_wait(), scope.len())).unwrap();
    };
    let mut held = scope.lock().unwrap();
    held.schedule(HOUR, move || token.run()).unwrap();
    held.schedule(Duration::ZERO, task).unwrap();
    drop(held);
    let (outcome, left) = receiver.recv_timeout(PATIENCE).unwrap();
    assert_eq!((outcome, left), (Err(WaitError::InsideTask), 1), "it is still there");
    assert_eq!(fates.of(0), (0, 1), "the others are cancelled");
    assert_eq!(scope.lock().unwrap().cancel_wait(), Ok(()));
}

#[test]
fn a_task_that_ends_its_scope_is_told_of_another_that_still_runs() {
    let engine = threaded().build().unwrap();
    for own_is_first in [true, false] {
        let (sender, receiver) = channel();
        let scope = Arc::new(Mutex::new(engine.waitable_scope()));
        let inside = Arc::downgrade(&scope);
        let own = move || {
            let scope = inside.upgrade().unwrap();
            let mut scope = scope.lock().unwrap();
            sender.send((scope.cancel_wait_within(MS), scope.len())).unwrap();
        };
        let (slow, task) = Slow::task();
        let mut held = scope.lock().unwrap();
        // In the order of their slots; the scope's lock keeps its own task waiting.
        if own_is_first {
            held.schedule(Duration::ZERO, own).unwrap();
            held.schedule(Duration::ZERO, task).unwrap();
        } else {
            held.schedule(Duration::ZERO, task).unwrap();
            held.schedule(Duration::ZERO, own).unwrap();
        }
        slow.has_begun();
        drop(held);
        let outcome = receiver.recv_timeout(PATIENCE).unwrap();
        assert_eq!(outcome, (Err(WaitError::TimedOut), 2));
        slow.release();
        assert_eq!(scope.lock().unwrap().cancel_wait(), Ok(()));
    }
}

#[test]
fn all_tasks_that_have_not_begun_are_taken_and_one_that_runs_stays() {
    let engine = threaded().build().unwrap();
    let (mut scope, slow, key) = with_slow(&engine);
    let other = scope.schedule(HOUR, || ()).unwrap();
    scope.schedule(HOUR, || ()).unwrap();
    assert_eq!((scope.take_all().len(), engine.len()), (2, 0));
    assert_eq!((scope.stage(key), scope.stage(other)), (Some(Stage::Running), None));
    assert!(scope.take_all().is_empty());
    slow.release();
    assert_eq!(scope.cancel_wait(), Ok(()));
}

#[test]
fn a_scope_that_is_dropped_cancels_and_does_not_wait() {
    let engine = threaded().build().unwrap();
    let (mut scope, slow, _) = with_slow(&engine);
    let fates = Fates::new(1);
    let token = fates.token(0);
    scope.schedule(HOUR, move || token.run()).unwrap();
    drop(scope);
    assert_eq!((engine.len(), fates.of(0)), (0, (0, 1)));
    slow.release();
}

#[test]
fn a_drop_that_panics_keeps_no_task_alive() {
    quietly();
    let (engine, _clock) = manual();
    let mut scope = engine.waitable_scope();
    let fates = Fates::new(2);
    for number in 0..2 {
        let (token, bomb) = (fates.token(number), Bomb);
        scope.schedule(MS, move || drop((token, bomb))).unwrap();
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scope.cancel_wait()));
    assert!(panicked.is_err());
    assert_eq!((scope.len(), fates.of(0), fates.of(1)), (0, (0, 1), (0, 1)));
}

/// What it is for: memory that is freed as soon as the wait is over.
#[test]
fn memory_may_be_freed_after_the_wait() {
    let pool = Pool::builder(Full::Block).threads(2).queue_bound(16).build().unwrap();
    let engines = [threaded().build().unwrap(), threaded().build_with_handler(pool).unwrap()];
    let mut random = Random::new(5);
    for round in 0..scaled(500) {
        let engine = &engines[round as usize % 2];
        let memory = Box::into_raw(Box::new(AtomicU64::new(0)));
        // SAFETY: it is freed after `cancel_wait`, and then no task runs.
        let runs: &'static AtomicU64 = unsafe { &*memory };
        let mut scope = engine.waitable_scope();
        for _ in 0..10 {
            let delay = Duration::from_micros(random.below(200));
            let run = || _ = runs.fetch_add(1, Ordering::Relaxed);
            scope.schedule(delay, run).unwrap();
        }
        dawdle(&mut random);
        let cancelled = scope.cancel_all();
        assert_eq!(scope.cancel_wait(), Ok(()));
        // SAFETY: it came from a box, and nothing of the tasks is left.
        let runs = unsafe { Box::from_raw(memory) }.into_inner();
        assert_eq!(runs + cancelled as u64, 10);
    }
}
