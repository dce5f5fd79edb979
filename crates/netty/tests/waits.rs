//! Waiting for the tasks of timeouts.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use support::parking::block_on;
use support::patience::PATIENCE;
use support::random::{Random, dawdle};
use support::scaled;
use support::slow::Slow;
use support::token::Fates;
use tickless::ManualClock;
use tickless::dispatch::{Full, Pool};
use tickless::wait::{Ended, Stage, WaitError};
use tickless_netty::{Expired, HashedWheelTimer, IntoTask, Timeout, TimerTask, WaitableTimeout};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

fn timer() -> HashedWheelTimer {
    HashedWheelTimer::builder().tick_duration(Duration::from_micros(20)).build().unwrap()
}

fn by_hand() -> HashedWheelTimer {
    HashedWheelTimer::builder().tick_duration(MS).manual_clock(&ManualClock::new()).build().unwrap()
}

/// A task that runs token number zero.
fn task(fates: &Fates) -> impl TimerTask {
    let token = fates.token(0);
    move |_: &Timeout| token.run()
}

#[test]
fn a_timeout_is_cancelled_or_has_run() {
    let (timer, fates) = (by_hand(), Fates::new(1));
    let mut cancelled = timer.new_waitable_timeout(task(&fates), MS).unwrap();
    let mut expired = timer.new_waitable_timeout(task(&fates), MS).unwrap();
    assert_eq!((cancelled.stage(), timer.pending_timeouts()), (Stage::Pending, 2));
    assert_eq!(cancelled.cancel_wait(), Ok(Ended::Cancelled));
    assert_eq!((cancelled.stage(), timer.pending_timeouts()), (Stage::Cancelled, 1));
    timer.advance(MS).unwrap();
    assert_eq!((expired.cancel_wait(), fates.of(0).0), (Ok(Ended::Finished), 1));
    let mut stopped = timer.new_waitable_timeout(task(&fates), MS).unwrap();
    let returned = timer.stop().unwrap();
    assert!(returned[0].is_cancelled() && stopped.stage() == Stage::Cancelled);
    assert_eq!(stopped.cancel_wait(), Ok(Ended::Cancelled));
    let rejected = timer.new_waitable_timeout(task(&fates), MS).unwrap_err();
    assert!(rejected.is_stopped());
}

#[test]
fn the_task_of_a_timeout_is_the_users() {
    let (timer, fates) = (by_hand(), Fates::new(1));
    let shared = task(&fates).into_task();
    let mut timeout = timer.new_waitable_timeout(shared.clone(), MS).unwrap();
    assert!(Arc::ptr_eq(timeout.task(), &shared));
    timer.new_timeout(timeout.task().clone(), 2 * MS).unwrap();
    timer.advance(MS).unwrap();
    assert_eq!(timeout.cancel_wait(), Ok(Ended::Finished));
    timer.advance(MS).unwrap();
    assert_eq!(fates.of(0).0, 2, "another timeout with the same task runs it");
}

#[test]
fn a_task_that_waits_to_be_run_is_cancelled() {
    let (sender, expired) = channel();
    let clock = ManualClock::new();
    let builder = HashedWheelTimer::builder().tick_duration(MS).manual_clock(&clock);
    let timer = builder.dispatcher(move |expired| sender.send(expired).unwrap()).build().unwrap();
    let fates = Fates::new(1);
    let mut timeout = timer.new_waitable_timeout(task(&fates), MS).unwrap();
    timer.advance(MS).unwrap();
    assert_eq!(timeout.stage(), Stage::Due);
    assert_eq!(timeout.cancel_wait(), Ok(Ended::Cancelled));
    let expired: Expired = expired.try_recv().unwrap();
    expired.run();
    assert!(timeout.is_expired() && fates.of(0).0 == 0);
}

#[test]
fn a_task_that_runs_is_waited_for() {
    let pool = Pool::builder(Full::Block).threads(1).build_typed(Expired::run).unwrap();
    let builder = HashedWheelTimer::builder().tick_duration(Duration::from_micros(20));
    let on_pool = builder.dispatcher(move |expired| pool.submit(expired).unwrap()).build().unwrap();
    for timer in [timer(), on_pool] {
        let (slow, once) = Slow::task();
        let once = Mutex::new(Some(once));
        let task = move |_: &Timeout| (once.lock().unwrap().take().unwrap())();
        let mut timeout = timer.new_waitable_timeout(task, Duration::ZERO).unwrap();
        slow.has_begun();
        assert_eq!(timeout.stage(), Stage::Running);
        assert_eq!(timeout.cancel_wait_within(MS), Err(WaitError::TimedOut));
        let waits = thread::spawn(move || (timeout.cancel_wait(), block_on(timeout.cancelled())));
        slow.release();
        assert_eq!(waits.join().unwrap(), (Ok(Ended::Finished), Ok(Ended::Finished)));
    }
}

#[test]
fn a_task_cannot_wait_for_its_own_timeout() {
    let (timer, (give, given), (answer, answers)) = (timer(), channel(), channel());
    let given = Mutex::new(given);
    let task = move |_: &Timeout| {
        let mut own: WaitableTimeout = given.lock().unwrap().recv().unwrap();
        answer.send(own.cancel_wait()).unwrap();
    };
    give.send(timer.new_waitable_timeout(task, Duration::ZERO).unwrap()).unwrap();
    let told = answers.recv_timeout(PATIENCE).expect("it waits for itself");
    assert_eq!(told, Err(WaitError::InsideTask));
}

#[test]
fn no_run_begins_or_goes_on_after_the_wait() {
    let (timer, random) = (timer(), &mut Random::new(3));
    for _ in 0..scaled(2_000) {
        let fates = Fates::new(1);
        let mut timeout =
            timer.new_waitable_timeout(task(&fates), Duration::from_micros(20)).unwrap();
        dawdle(random);
        let ended = timeout.cancel_wait().unwrap();
        let runs = u32::from(ended == Ended::Finished);
        assert_eq!(fates.of(0).0, runs);
        dawdle(random);
        assert_eq!(fates.of(0).0, runs);
    }
}
