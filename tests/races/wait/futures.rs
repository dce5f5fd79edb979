//! Waiting for tasks in async code.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use support::mpsc::channel;
use support::parking::block_on;
use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use support::polling::{bell, poll};
use support::scaled;
use support::slow::Slow;
use support::threads::spawn;
use support::token::Fates;
use tickless::wait::{self, Ended, Stage, WaitError};
use tickless::{Engine, Waitable};
use tickless_sync::Mutex;

fn engine() -> Engine {
    Engine::builder().tick(Duration::from_micros(20)).shards(1).build().unwrap()
}

#[test]
fn a_task_that_has_not_begun_is_cancelled_by_the_call() {
    let (engine, fates) = (engine(), Fates::new(2));
    let hour = Duration::from_secs(3600);
    let mut timers = [0, 1].map(|number| {
        let token = fates.token(number);
        engine.schedule_waitable(hour, move || token.run()).unwrap()
    });
    assert_eq!(block_on(timers[0].cancelled()), Ok(Ended::Cancelled));
    drop(timers[1].cancelled());
    assert_eq!(timers[1].stage(), Stage::Cancelled, "though nobody has polled");
    assert_eq!([fates.of(0), fates.of(1)], [(0, 1); 2]);
}

#[test]
fn a_task_that_runs_is_awaited() {
    let engine = engine();
    for _ in 0..scaled(50) {
        let (slow, task) = Slow::task();
        let mut timer = engine.schedule_waitable(Duration::ZERO, task).unwrap();
        slow.has_begun();
        let (begin, begun) = channel();
        let waits = spawn(move || {
            begin.send(()).unwrap();
            block_on(timer.cancelled())
        });
        begun.recv().unwrap();
        slow.release();
        assert_eq!(waits.join().unwrap(), Ok(Ended::Finished));
    }
}

#[test]
fn the_task_that_polled_last_is_woken() {
    let (guarded, mut waiter) = wait::pair(());
    let ((), running) = guarded.begin().unwrap();
    let ((first, first_waker), (last, last_waker)) = (bell(), bell());
    let mut future = waiter.cancelled();
    assert!(poll(&mut future, &first_waker).is_pending());
    assert!(poll(&mut future, &first_waker).is_pending());
    assert!(poll(&mut future, &last_waker).is_pending());
    drop(running);
    assert_eq!((first.woken(), last.woken()), (0, 1));
    assert_eq!(poll(&mut future, &last_waker), Poll::Ready(Ok(Ended::Finished)));
}

#[test]
fn a_future_that_is_dropped_wakes_nobody_and_the_wait_may_be_repeated() {
    let (guarded, mut waiter) = wait::pair(());
    let ((), running) = guarded.begin().unwrap();
    let (bell, waker) = bell();
    for _ in 0..3 {
        assert!(poll(&mut waiter.cancelled(), &waker).is_pending());
    }
    assert_eq!(Arc::strong_count(&bell), 2, "no waker is kept");
    drop(running);
    assert_eq!(bell.woken(), 0);
    assert_eq!(block_on(waiter.cancelled()), Ok(Ended::Finished));
}

#[test]
fn a_waker_that_panics_harms_only_itself() {
    struct Loud;
    impl std::task::Wake for Loud {
        fn wake(self: Arc<Loud>) {
            panic_as_planned()
        }
    }
    quietly();
    let (slow, task) = Slow::task();
    let engine = engine();
    let mut timer = engine.schedule_waitable(Duration::ZERO, task).unwrap();
    slow.has_begun();
    let mut future = timer.cancelled();
    assert!(poll(&mut future, &Arc::new(Loud).into()).is_pending());
    slow.release();
    assert_eq!(block_on(future), Ok(Ended::Finished));
    engine.stop().unwrap();
    assert_eq!(engine.stats().panicked, 0);
}

/// Blocks on a wait for itself, inside a task.
#[test]
fn a_task_that_blocks_on_its_own_end_is_told() {
    let (engine, (answer, answers)) = (engine(), channel());
    let slot = Arc::new(Mutex::new(None::<Waitable>));
    let own = slot.clone();
    let mut guard = slot.lock().unwrap();
    let task = move || {
        let mut timer = own.lock().unwrap().take().unwrap();
        answer.send(block_on(timer.cancelled())).unwrap();
    };
    *guard = Some(engine.schedule_waitable(Duration::ZERO, task).unwrap());
    drop(guard);
    assert_eq!(answers.recv_timeout(PATIENCE), Ok(Err(WaitError::InsideTask)));
}
