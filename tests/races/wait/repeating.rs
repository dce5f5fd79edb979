//! Waiting for the end of periodics, retries and heartbeats: no closure of theirs runs or is left
//! when the wait is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use support::compiled;
use support::mpsc;
use support::parking::block_on;
use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use support::random::{Random, dawdle};
use support::scaled;
use support::slow::Slow;
use support::threads::spawn;
use support::token::Fates;
use tickless::Engine;
use tickless::dispatch::{Full, Pool};
use tickless::periodic::{Backoff, End, Heartbeat, Outcome, Periodic, Retry, Schedule};
use tickless::wait::WaitError;
use tickless_sync::OnceLock;

const US: Duration = Duration::from_micros(1);

const HOUR: Duration = Duration::from_secs(3600);

fn threaded() -> Engine {
    Engine::builder().tick(20 * US).shards(1).build().unwrap()
}

fn on_pool() -> Engine {
    let pool = Pool::builder(Full::Block).threads(2).queue_bound(4).build().unwrap();
    Engine::builder().tick(20 * US).shards(1).build_with_handler(pool).unwrap()
}

/// `wait` waits for the end of something whose closure runs now: it does not return before the
/// closure has.
#[track_caller]
fn waits_for<R: Send + 'static>(slow: Slow, wait: impl FnOnce() -> R + Send + 'static) -> R {
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let waits = spawn(move || {
        begin.send(()).unwrap();
        end.send(wait()).unwrap();
    });
    begun.recv().unwrap();
    assert!(ended.try_recv().is_err(), "the closure still runs");
    slow.release();
    waits.join().unwrap();
    ended.recv_timeout(PATIENCE).unwrap()
}

#[test]
fn a_periodic_without_a_run_under_way_is_over_at_once() {
    let (engine, fates) = (threaded(), Fates::new(3));
    let [one, two, three] = [0, 1, 2].map(|number| {
        let token = fates.token(number);
        engine.every(HOUR, compiled::task(move |_| token.run())).unwrap()
    });
    assert_eq!(one.cancel_wait(), Ok(End::Cancelled));
    assert_eq!(two.cancel_wait_within(Duration::ZERO), Ok(End::Cancelled));
    assert_eq!(block_on(three.cancelled()), Ok(End::Cancelled));
    assert_eq!([0, 1, 2].map(|number| fates.of(number)), [(0, 1); 3]);
    assert_eq!(one.cancel_wait(), Ok(End::Cancelled), "it stays so");
}

#[test]
fn the_run_that_is_under_way_is_waited_for_by_all_who_do() {
    for engine in [threaded(), on_pool()] {
        for _ in 0..scaled(30) {
            let ((slow, task), fates) = (Slow::task(), Fates::new(1));
            let (mut task, token) = (Some(task), fates.token(0));
            let periodic = Schedule::fixed_delay(20 * US)
                .starting(Duration::ZERO)
                .start(
                    &engine,
                    compiled::task(move |_| {
                        token.run();
                        task.take().into_iter().for_each(|task| task());
                    }),
                )
                .unwrap();
            slow.has_begun();
            assert_eq!(periodic.cancel_wait_within(50 * US), Err(WaitError::TimedOut));
            let others = [periodic.clone(), periodic.clone()];
            let others = others.map(|other| spawn(move || other.cancel_wait()));
            let told = waits_for(slow, move || (block_on(periodic.cancelled()), fates.of(0)));
            assert_eq!(told, (Ok(End::Cancelled), (1, 1)));
            let told = others.map(|other| other.join().unwrap());
            assert_eq!(told, [Ok(End::Cancelled); 2]);
        }
    }
}

/// Waits until the periodic has been put in its place.
fn wait_for(place: &OnceLock<Periodic>) -> &Periodic {
    loop {
        match place.get() {
            Some(periodic) => return periodic,
            None => thread::yield_now(),
        }
    }
}

#[test]
fn a_run_cannot_wait_for_its_own_periodic() {
    let (engine, (answer, answers)) = (threaded(), mpsc::channel());
    let own = Arc::new(OnceLock::<Periodic>::new());
    let of_run = own.clone();
    let run = move |_: &_| {
        let periodic = wait_for(&of_run);
        answer.send((periodic.cancel_wait(), block_on(periodic.cancelled()))).unwrap();
    };
    own.set(Schedule::fixed_rate(100 * US).start(&engine, run).unwrap()).unwrap();
    let told = answers.recv_timeout(PATIENCE).expect("it waits for itself");
    assert_eq!(told, (Err(WaitError::InsideTask), Err(WaitError::InsideTask)));
    assert_eq!(own.get().unwrap().cancel_wait(), Ok(End::Cancelled));
    assert_eq!(own.get().unwrap().runs(), 1);
}

#[test]
fn a_periodic_that_ends_otherwise_is_waited_for_as_well() {
    quietly();
    let (engine, fates) = (threaded(), Fates::new(2));
    let (token, (slow, task)) = (fates.token(0), Slow::task());
    let mut task = Some(task);
    let last = compiled::task(move |run: &tickless::periodic::Run| {
        token.run();
        run.cancel();
        task.take().into_iter().for_each(|task| task());
        panic_as_planned()
    });
    let periodic = engine.every(50 * US, last).unwrap();
    slow.has_begun();
    let told = waits_for(slow, move || (periodic.cancel_wait(), fates.of(0)));
    assert_eq!(told, (Ok(End::Cancelled), (1, 1)));
    let fates = Fates::new(1);
    let token = fates.token(0);
    let periodic = engine.every(HOUR, compiled::task(move |_| token.run())).unwrap();
    drop(engine);
    assert_eq!((periodic.cancel_wait(), fates.of(0)), (Ok(End::Stopped), (0, 1)));
}

#[test]
fn the_closure_of_a_heartbeat_is_waited_for() {
    for engine in [threaded(), on_pool()] {
        for _ in 0..scaled(30) {
            let ((slow, task), fates) = (Slow::task(), Fates::new(2));
            let token = fates.token(0);
            let silent = compiled::silent(move || {
                task();
                token.run();
            });
            let silent = Heartbeat::new(&engine, 20 * US, silent).unwrap();
            slow.has_begun();
            assert_eq!(silent.stop_wait_within(50 * US), Err(WaitError::TimedOut));
            let token = fates.token(1);
            let beating =
                Heartbeat::new(&engine, HOUR, compiled::silent(move || token.run())).unwrap();
            let of_waiter = fates.clone();
            let wait = move || (silent.stop_wait(), block_on(silent.stopped()), of_waiter.of(0));
            let told = waits_for(slow, wait);
            assert_eq!(told, (Ok(End::Finished), Ok(End::Finished), (1, 1)));
            assert_eq!((beating.stop_wait(), fates.of(1)), (Ok(End::Cancelled), (0, 1)));
        }
    }
}

#[test]
fn the_attempt_of_a_retry_is_waited_for() {
    for engine in [threaded(), on_pool()] {
        for _ in 0..scaled(30) {
            let ((slow, task), fates) = (Slow::task(), Fates::new(2));
            let (attempts, done) = (fates.token(0), fates.token(1));
            let mut task = Some(task);
            let attempt = move |_| -> Result<(), ()> {
                attempts.run();
                task.take().into_iter().for_each(|task| task());
                Err(())
            };
            let done = move |outcome: Outcome<(), ()>| {
                assert!(matches!(outcome, Outcome::Ended { end: End::Cancelled, attempts: 1 }));
                done.run();
            };
            let retry = Retry::new(Backoff::new(20 * US)).run(&engine, attempt, done).unwrap();
            slow.has_begun();
            assert_eq!(retry.cancel_wait_within(50 * US), Err(WaitError::TimedOut));
            let other = retry.clone();
            let wait = move || (retry.cancel_wait(), fates.of(0), fates.of(1));
            assert_eq!(waits_for(slow, wait), (Ok(End::Cancelled), (1, 1), (1, 1)));
            assert_eq!(block_on(other.cancelled()), Ok(End::Cancelled));
        }
    }
}

/// As the test of that name in `wait_races`, with closures that run again and again.
#[test]
fn memory_that_is_freed_after_the_wait_is_touched_by_no_run() {
    let random = &mut Random::new(7);
    for engine in [threaded(), on_pool()] {
        for _ in 0..scaled(2_000) {
            let memory = Box::into_raw(Box::new(AtomicU64::new(0)));
            // SAFETY: the memory is freed after the wait, and nothing of the closure runs then.
            let ground: &'static AtomicU64 = unsafe { &*memory };
            let work = move || {
                (0..20).for_each(|_| _ = ground.fetch_add(1, Ordering::Relaxed));
            };
            let is_periodic = random.below(2) == 0;
            let runs = if is_periodic {
                let periodic = engine.every(20 * US, compiled::task(move |_| work())).unwrap();
                dawdle(random);
                dawdle(random);
                periodic.cancel_wait().unwrap();
                periodic.runs()
            } else {
                let heartbeat = Heartbeat::new(&engine, 20 * US, compiled::silent(work)).unwrap();
                dawdle(random);
                u64::from(heartbeat.stop_wait().unwrap() == End::Finished)
            };
            // SAFETY: it came from a box, and nothing works on it any more.
            let works = unsafe { Box::from_raw(memory) }.into_inner();
            assert_eq!(works, 20 * runs, "periodic: {is_periodic}");
        }
    }
}
