//! Timers whose tasks can be waited for, step by step: each way to end is told, and nothing of the
//! task is left then.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::mpsc;
use support::planned::{Planned, panic_as_planned, quietly};
use support::token::Fates;
use tickless::dispatch::Channel;
use tickless::wait::{self, Ended, Guarded, Stage, WaitError};
use tickless::{Batch, Builder, Engine, ManualClock, ResetError, Task, TaskPanic, Waitable};

const SECOND: Duration = Duration::from_secs(1);

fn engine() -> Engine {
    Engine::builder().manual_clock(&ManualClock::new()).shards(1).build().unwrap()
}

/// A timer that is due in a second, and runs token number zero.
fn due_soon(engine: &Engine, fates: &Fates) -> Waitable {
    let token = fates.token(0);
    engine.schedule_waitable(SECOND, move || token.run()).unwrap()
}

#[test]
fn a_task_that_is_cancelled_in_time_is_dropped_at_once() {
    let (engine, fates) = (engine(), Fates::new(1));
    let mut timer = due_soon(&engine, &fates);
    assert_eq!(timer.stage(), Stage::Pending);
    assert!(timer.deadline().is_some());
    assert_eq!(timer.cancel_wait(), Ok(Ended::Cancelled));
    assert_eq!((fates.of(0), engine.len()), ((0, 1), 0));
    assert_eq!((timer.stage(), timer.deadline()), (Stage::Cancelled, None));
    assert_eq!(timer.cancel_wait(), Ok(Ended::Cancelled), "it stays so");
    assert!(!timer.cancel(), "it was cancelled before");
    assert_eq!(timer.reset(SECOND), Err(ResetError::TooLate));
    assert!(timer.into_handle().is_none());
    assert_eq!(engine.advance(2 * SECOND), Ok(0));
}

#[test]
fn a_task_that_has_run_is_told() {
    let (engine, fates) = (engine(), Fates::new(1));
    let mut timer = due_soon(&engine, &fates);
    timer.reset(2 * SECOND).unwrap();
    engine.advance(SECOND).unwrap();
    assert_eq!((timer.stage(), fates.of(0)), (Stage::Pending, (0, 0)));
    engine.advance(SECOND).unwrap();
    assert_eq!((timer.stage(), fates.of(0)), (Stage::Finished, (1, 1)));
    assert!(!timer.cancel());
    assert_eq!(timer.cancel_wait(), Ok(Ended::Finished));
    assert_eq!(timer.cancel_wait_within(Duration::ZERO), Ok(Ended::Finished));
}

#[test]
fn a_task_that_nobody_waits_for_runs_or_is_cancelled_by_its_handle() {
    let (engine, fates) = (engine(), Fates::new(2));
    drop(due_soon(&engine, &fates));
    let token = fates.token(1);
    let plain = engine.schedule_waitable(SECOND, move || token.run()).unwrap().into_handle();
    assert!(plain.unwrap().cancel());
    assert_eq!(fates.of(1), (0, 1));
    engine.advance(SECOND).unwrap();
    assert_eq!(fates.of(0), (1, 1));
    drop(due_soon(&engine, &Fates::new(1)).cancel_on_drop());
    assert_eq!(engine.len(), 0);
}

#[test]
fn a_task_may_cancel_a_later_one_of_its_batch() {
    let (engine, fates) = (engine(), Fates::new(1));
    let (slot, (answer, answers)) = (Arc::new(Mutex::new(None::<Waitable>)), mpsc::channel());
    let (later, of_task) = (slot.clone(), fates.clone());
    engine
        .schedule_detached(SECOND, move || {
            let mut timer = later.lock().unwrap().take().unwrap();
            let stage = timer.stage();
            answer.send((stage, timer.cancel_wait(), of_task.of(0))).unwrap();
        })
        .unwrap();
    // The first of a tick may be either: this one is due later, in the same turn.
    let token = fates.token(0);
    let timer = engine.schedule_waitable(SECOND + SECOND / 100, move || token.run()).unwrap();
    *slot.lock().unwrap() = Some(timer);
    engine.advance(2 * SECOND).unwrap();
    let (stage, ended, fate) = answers.try_recv().unwrap();
    assert!(matches!(stage, Stage::Due | Stage::Pending), "{stage:?}");
    assert_eq!((ended, fate), (Ok(Ended::Cancelled), (0, 1)));
    assert_eq!(fates.of(0), (0, 1), "it did not run afterwards");
}

#[test]
fn a_task_cannot_wait_for_itself() {
    let (engine, (answer, answers)) = (engine(), mpsc::channel());
    let slot = Arc::new(Mutex::new(None::<Waitable>));
    let own = slot.clone();
    let timer = engine.schedule_waitable(SECOND, move || {
        let mut timer = own.lock().unwrap().take().unwrap();
        let told = (timer.stage(), timer.cancel(), timer.cancel_wait());
        answer.send((told, timer)).unwrap();
    });
    *slot.lock().unwrap() = Some(timer.unwrap());
    engine.advance(SECOND).unwrap();
    let (told, mut timer) = answers.try_recv().unwrap();
    assert_eq!(told, (Stage::Running, false, Err(WaitError::InsideTask)));
    assert_eq!(timer.cancel_wait(), Ok(Ended::Finished));
}

#[test]
fn the_drop_of_a_task_is_a_part_of_it() {
    struct Asks(mpsc::Sender<(Stage, Result<Ended, WaitError>)>, Arc<Mutex<Option<Waitable>>>);
    impl Drop for Asks {
        fn drop(&mut self) {
            let mut own = self.1.lock().unwrap().take().unwrap();
            self.0.send((own.stage(), own.cancel_wait())).unwrap();
        }
    }
    let (answer, answers) = mpsc::channel();
    let dropping = Builder::new().manual_clock(&ManualClock::new());
    let dropping =
        dropping.build_with_handler(|batch: Batch<'_, Task>| batch.for_each(drop)).unwrap();
    for engine in [engine(), dropping] {
        let slot = Arc::new(Mutex::new(None));
        let asks = Asks(answer.clone(), slot.clone());
        let timer = engine.schedule_waitable(SECOND, move || drop(asks)).unwrap();
        *slot.lock().unwrap() = Some(timer);
        engine.advance(SECOND).unwrap();
        let told = answers.try_recv().unwrap();
        assert_eq!(told, (Stage::Running, Err(WaitError::InsideTask)));
    }
}

#[test]
fn a_task_that_panics_has_ended() {
    quietly();
    let (engine, fates) = (engine(), Fates::new(1));
    let token = fates.token(0);
    let task = move || {
        token.run();
        panic_as_planned()
    };
    let mut timer = engine.schedule_waitable(SECOND, task).unwrap();
    engine.advance(SECOND).unwrap();
    assert_eq!(timer.cancel_wait(), Ok(Ended::Finished));
    assert_eq!((fates.of(0), engine.stats().panicked), ((1, 1), 1));
}

/// Who catches the panic has that, and may drop it later: here when the callback has returned.
#[test]
fn what_a_task_panics_with_may_outlast_it_and_nothing_else_does() {
    let (slot, fates) = (Arc::new(Mutex::new(None::<Waitable>)), Fates::new(2));
    let (of_callback, seen, (answer, answers)) = (slot.clone(), fates.clone(), mpsc::channel());
    let on_panic = move |_: &TaskPanic<'_>| {
        let mut timer = of_callback.lock().unwrap().take().unwrap();
        answer.send((timer.cancel_wait(), seen.of(0), seen.of(1))).unwrap();
    };
    let builder = Engine::builder().manual_clock(&ManualClock::new()).on_panic(on_panic);
    let engine = builder.build().unwrap();
    let [kept, thrown] = [0, 1].map(|number| fates.token(number));
    let task = move || {
        kept.run();
        resume_unwind(Box::new(thrown))
    };
    *slot.lock().unwrap() = Some(engine.schedule_waitable(SECOND, task).unwrap());
    engine.advance(SECOND).unwrap();
    assert_eq!(answers.try_recv(), Ok((Ok(Ended::Finished), (1, 1), (0, 0))));
    assert_eq!((fates.of(1), engine.stats().panicked), ((0, 1), 1));
}

#[test]
fn a_task_whose_drop_panics_is_cancelled_all_the_same() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_as_planned()
        }
    }
    quietly();
    let (engine, bomb) = (engine(), Bomb);
    let mut timer = engine.schedule_waitable(SECOND, move || drop(bomb)).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| timer.cancel_wait())).unwrap_err();
    assert!(panic.is::<Planned>());
    assert_eq!((timer.cancel_wait(), engine.len()), (Ok(Ended::Cancelled), 0));
    let bomb = Bomb;
    let mut timer = engine.schedule_waitable(SECOND, move || drop(bomb)).unwrap();
    engine.advance(SECOND).unwrap();
    assert_eq!((timer.cancel_wait(), engine.stats().panicked), (Ok(Ended::Finished), 1));
}

#[test]
fn a_task_that_a_handler_drops_will_never_run() {
    let builder = Builder::new().manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(|batch: Batch<'_, Task>| batch.for_each(drop)).unwrap();
    let fates = Fates::new(1);
    let mut timer = due_soon(&engine, &fates);
    engine.advance(SECOND).unwrap();
    assert_eq!((timer.stage(), fates.of(0)), (Stage::Cancelled, (0, 1)));
    assert_eq!(timer.cancel_wait(), Ok(Ended::Cancelled));
}

#[test]
fn a_task_that_a_stop_has_returned_is_cancelled_where_it_is() {
    let (engine, fates) = (engine(), Fates::new(1));
    let mut timer = due_soon(&engine, &fates);
    let returned = engine.stop().unwrap();
    assert_eq!((timer.stage(), returned.len()), (Stage::Due, 1));
    assert_eq!(timer.cancel_wait(), Ok(Ended::Cancelled));
    assert_eq!(fates.of(0), (0, 1));
    returned.into_iter().for_each(Task::run);
    assert_eq!(fates.of(0), (0, 1), "it did nothing");
}

#[test]
fn a_task_that_a_stop_has_returned_may_be_run() {
    let (engine, fates) = (engine(), Fates::new(2));
    let mut ran = due_soon(&engine, &fates);
    engine.stop().unwrap().into_iter().for_each(Task::run);
    assert_eq!((ran.cancel_wait(), fates.of(0)), (Ok(Ended::Finished), (1, 1)));
    let (engine, token) = (self::engine(), fates.token(1));
    let mut dropped = engine.schedule_waitable(SECOND, move || token.run()).unwrap();
    drop(engine);
    assert_eq!((dropped.cancel_wait(), fates.of(1)), (Ok(Ended::Cancelled), (0, 1)));
}

#[test]
fn a_task_that_is_refused_comes_back() {
    let fates = Fates::new(2);
    let builder = Engine::builder().manual_clock(&ManualClock::new());
    let engine = builder.max_pending(1).build().unwrap();
    let _first = engine.schedule(SECOND, || ()).unwrap();
    let token = fates.token(0);
    let refused = engine.schedule_waitable(SECOND, move || token.run()).unwrap_err();
    assert!(refused.is_full());
    refused.into_payload().run();
    assert_eq!(fates.of(0), (1, 1));
    engine.stop().unwrap();
    let token = fates.token(1);
    let refused = engine.schedule_waitable(SECOND, move || token.run()).unwrap_err();
    assert!(refused.is_stopped());
    drop(refused);
    assert_eq!(fates.of(1), (0, 1));
}

#[test]
fn a_task_in_a_channel_is_cancelled_there() {
    let (sender, receiver) = crossbeam_channel::unbounded();
    let builder = Builder::new().manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(Channel::blocking(sender)).unwrap();
    let fates = Fates::new(1);
    let mut timer = due_soon(&engine, &fates);
    engine.advance(SECOND).unwrap();
    assert_eq!((timer.stage(), receiver.len()), (Stage::Due, 1));
    assert_eq!((timer.cancel_wait(), fates.of(0)), (Ok(Ended::Cancelled), (0, 1)));
    let task: Task = receiver.try_recv().unwrap();
    task.run();
    assert_eq!(fates.of(0), (0, 1));
}

#[test]
fn values_of_ones_own_are_used_once_or_taken_back() {
    let (sender, used) = mpsc::channel();
    let builder = Builder::new().manual_clock(&ManualClock::new());
    let engine: Engine<Guarded<u32>> = builder
        .build_typed(move |batch: Batch<'_, Guarded<u32>>| {
            for value in batch {
                value.run(|number| sender.send(number).unwrap());
            }
        })
        .unwrap();
    let mut one = engine.schedule_waitable(SECOND, 1).unwrap();
    let mut two = engine.schedule_waitable(SECOND, 2).unwrap();
    let (three, mut waiter) = wait::pair(3);
    engine.schedule_detached(SECOND, three).unwrap();
    assert_eq!((two.take(), two.take(), waiter.take()), (Some(2), None, Some(3)));
    assert_eq!(engine.len(), 2, "the timer of a bare waiter stays");
    engine.advance(SECOND).unwrap();
    assert_eq!((one.take(), one.cancel_wait()), (None, Ok(Ended::Finished)));
    assert_eq!(used.try_iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn the_use_of_a_value_may_outlast_a_call() {
    let (guarded, mut waiter) = wait::pair(7);
    assert_eq!(waiter.stage(), Stage::Pending);
    let (value, running) = guarded.begin().unwrap();
    assert_eq!((value, waiter.stage()), (7, Stage::Running));
    assert_eq!(waiter.cancel_wait_within(Duration::ZERO), Err(WaitError::TimedOut));
    let waited = waiter.cancel_wait_within(Duration::from_millis(1));
    assert_eq!(waited, Err(WaitError::TimedOut));
    drop(running);
    assert_eq!(waiter.cancel_wait(), Ok(Ended::Finished));
    let (guarded, mut waiter) = wait::pair(8);
    assert!(waiter.cancel());
    assert!(guarded.begin().is_none());
    let (guarded, mut waiter) = wait::pair(9);
    drop(guarded);
    assert_eq!((waiter.take(), waiter.cancel_wait()), (None, Ok(Ended::Cancelled)));
}

#[test]
fn the_task_of_a_keyed_timer_can_be_waited_for() {
    let (engine, fates) = (engine(), Fates::new(3));
    let timers = tickless_keyed::KeyedTimers::with_engine(&engine);
    let mut waiters = [0, 1, 2].map(|number| {
        let token = fates.token(number);
        let (task, waiter) = wait::task(move || token.run());
        timers.schedule_keyed(number, SECOND * (number as u32 + 1), task).unwrap();
        waiter
    });
    engine.advance(SECOND).unwrap();
    assert!(timers.cancel(&1));
    let ended = [0, 1, 2].map(|number| waiters[number].cancel_wait().unwrap());
    assert_eq!(ended, [Ended::Finished, Ended::Cancelled, Ended::Cancelled]);
    engine.advance(5 * SECOND).unwrap();
    assert_eq!([0, 1, 2].map(|number| fates.of(number)), [(1, 1), (0, 1), (0, 1)]);
}
