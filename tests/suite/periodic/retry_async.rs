//! Retries whose attempts are futures: they do what those on the engine do, in the caller's task.
//! And the ends of repeating things, awaited.

use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;

use support::compiled;
use support::hands::engine_by_hand;
use support::mpsc;
use support::planned::{panic_as_planned, quietly};
use support::polling::{bell, poll};
use support::random::Random;
use support::scaled;
use support::token::Fates;
use tickless::periodic::{Attempt, Backoff, End, Outcome, Retry, Retrying};
// One that ThreadSanitizer can follow.
use tickless::wait::WaitError;
use tickless::{Engine, ManualClock};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

type Came = Outcome<u32, String>;

type Awaited<'a> = Pin<Box<dyn Future<Output = Result<End, WaitError>> + 'a>>;

fn hundred() -> Backoff {
    Backoff::new(MS * 100)
}

fn fail(number: u32) -> Result<u32, String> {
    Err(format!("failure {number}"))
}

/// An engine on a clock that is moved by hand, and when attempts began.
struct Bench {
    clock: ManualClock,
    engine: Engine,
    began: Arc<Mutex<Vec<u128>>>,
}

impl Bench {
    fn new() -> Bench {
        let clock = ManualClock::new();
        let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
        Bench { clock, engine, began: Arc::default() }
    }

    /// Notes that an attempt begins.
    fn begins(&self) -> impl Fn() + Send + use<> {
        let (began, clock) = (self.began.clone(), self.clock.clone());
        move || began.lock().unwrap().push(clock.elapsed().as_millis())
    }

    /// Polls at each millisecond, but not without having been woken.
    fn outcome(&self, retry: impl Future<Output = Came>) -> (Option<Came>, Vec<u128>) {
        let (mut retry, (bell, waker)) = (Box::pin(retry), bell());
        let (mut polled, mut outcome) = (u32::MAX, None);
        for _ in 0..=HORIZON {
            while outcome.is_none() && polled != bell.woken() {
                polled = bell.woken();
                if let Poll::Ready(came) = poll(&mut retry, &waker) {
                    outcome = Some(came);
                }
            }
            self.engine.advance(MS).unwrap();
        }
        (outcome, self.began.lock().unwrap().clone())
    }
}

/// Milliseconds that are looked at.
const HORIZON: u32 = 300;

/// How an attempt comes out.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Succeeds,
    Fails,
    /// Its limit has to end it, if it has one.
    Hangs,
}

#[test]
fn it_does_what_a_retry_on_the_engine_does() {
    let mut random = Random::new(17);
    for round in 0..scaled(150) {
        let most = random.below(6) as u32;
        let pauses: Vec<_> =
            (0..random.below(6)).map(|_| MS * (1 + random.below(80) as u32)).collect();
        let within = MS * [60, 150, 100_000][random.below(3) as usize];
        let limit = [None, Some(MS * 30)][random.below(2) as usize];
        let answers: Vec<_> = (0..8)
            .map(|_| match random.below(8) {
                0 => Answer::Succeeds,
                1 | 2 => Answer::Hangs,
                _ => Answer::Fails,
            })
            .collect();
        let mut retry = Retry::new(pauses.clone()).attempts(most).within(within);
        if let Some(limit) = limit {
            retry = retry.attempt_timeout(limit);
        }

        let bench = Bench::new();
        let (begins, script) = (bench.begins(), answers.clone());
        let futures = retry.clone().run_async(&bench.engine, async |number| {
            begins();
            match script[number as usize - 1] {
                Answer::Succeeds => Ok(number),
                Answer::Fails => fail(number),
                Answer::Hangs => pending().await,
            }
        });
        let ours = bench.outcome(futures);

        let bench = Bench::new();
        let (begins, script, told) = (bench.begins(), answers.clone(), Arc::new(OnceLock::new()));
        // (Not the retry's own, since they keep it.)
        let (done, (hangs, _hanging)) = (told.clone(), mpsc::channel());
        let attempt = move |attempt: Attempt<u32, String>| {
            begins();
            let number = attempt.number();
            match script[number as usize - 1] {
                Answer::Succeeds => attempt.succeed(number),
                Answer::Fails => attempt.fail(format!("failure {number}")),
                Answer::Hangs => hangs.send(attempt).unwrap(),
            }
        };
        let _retrying =
            retry.start(&bench.engine, attempt, move |came| done.set(came).unwrap()).unwrap();
        bench.engine.advance(Duration::ZERO).unwrap();
        for _ in 0..HORIZON {
            bench.engine.advance(MS).unwrap();
        }
        let theirs = (told.get().cloned(), bench.began.lock().unwrap().clone());
        let about = || format!("{round}: {most} {pauses:?} {within:?} {limit:?} {answers:?}");
        assert_eq!(ours, theirs, "{}", about());
    }
}

#[test]
fn an_attempt_that_takes_too_long_is_dropped_then_and_no_timer_outlives_one() {
    let (engine, fates, (_, waker)) = (engine_by_hand(), Fates::new(2), bell());
    let tokens = fates.clone();
    let retry = Retry::new(hundred()).attempt_timeout(MS * 50).run_async(&engine, move |number| {
        let token = tokens.token(number as usize - 1);
        async move {
            if number == 1 {
                pending::<()>().await;
            }
            token.run();
            fail(number)
        }
    });
    let mut retry = Box::pin(retry);
    assert_eq!(poll(&mut retry, &waker), Poll::Pending);
    assert_eq!((engine.len(), fates.of(0)), (1, (0, 0)));
    engine.advance(MS * 50).unwrap();
    assert_eq!(poll(&mut retry, &waker), Poll::Pending);
    assert_eq!((engine.len(), fates.of(0)), (1, (0, 1)), "the pause");
    engine.advance(MS * 100).unwrap();
    assert_eq!(poll(&mut retry, &waker), Poll::Pending);
    assert_eq!((engine.len(), fates.of(1)), (1, (1, 1)), "the next, and not the limit");
    drop(retry);
    assert!(engine.is_empty());
}

#[test]
fn one_that_is_dropped_within_an_attempt_drops_the_attempt_and_its_limit() {
    let (engine, fates, (_, waker)) = (engine_by_hand(), Fates::new(1), bell());
    let mut token = Some(fates.token(0));
    let attempt = |_| {
        let token = token.take();
        async move {
            let _token = token;
            pending::<Result<(), ()>>().await
        }
    };
    let retry = Retry::new(hundred()).attempt_timeout(MS).run_async(&engine, attempt);
    let mut retry = Box::pin(retry);
    assert!(poll(&mut retry, &waker).is_pending());
    assert_eq!((engine.len(), fates.of(0)), (1, (0, 0)));
    drop(retry);
    assert_eq!((engine.len(), fates.of(0)), (0, (0, 1)));
}

/// Polls a retry whose attempts fail, on an engine to which `fate` happens during the first pause.
fn ended_by(engine: Engine, fate: impl FnOnce(Engine)) -> Outcome<u32, String> {
    let (bell, waker) = bell();
    let mut retry =
        Box::pin(Retry::new(hundred()).run_async(&engine, |number| ready(fail(number))));
    assert_eq!(poll(&mut retry, &waker), Poll::Pending);
    fate(engine);
    assert_eq!(bell.woken(), 1);
    let Poll::Ready(outcome) = poll(&mut retry, &waker) else { panic!("it waits for nothing") };
    outcome
}

#[test]
fn an_engine_that_ends_is_the_end() {
    let stopped = Outcome::Ended { end: End::Stopped, attempts: 1 };
    assert_eq!(ended_by(engine_by_hand(), |engine| drop(engine.stop().unwrap())), stopped);
    assert_eq!(ended_by(engine_by_hand(), drop), stopped, "it does not keep the engine");
    // One that has ended before.
    let engine = engine_by_hand();
    engine.stop().unwrap();
    let retry = Retry::new(hundred());
    let outcome = retry.run_async(&engine, |number| ready(fail(number))).now_or_never();
    assert_eq!(outcome, Some(stopped));
    // It limits no attempt either: one that has to wait fails.
    let retry = Retry::new(hundred()).attempts(1).attempt_timeout(MS * 1000);
    let outcome = retry.run_async(&engine, async |_| pending::<Result<(), ()>>().await);
    let failed = Outcome::GaveUp { error: None, attempts: 1 };
    assert_eq!(outcome.now_or_never(), Some(failed));
}

#[test]
fn pauses_of_no_length_let_others_run() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let retry = Retry::new(Backoff::new(Duration::ZERO));
    let attempt = |number| ready(if number < 5 { fail(number) } else { Ok(number) });
    let mut retry = Box::pin(retry.run_async(&engine, attempt));
    for attempts in 1..5 {
        assert_eq!((poll(&mut retry, &waker), bell.woken()), (Poll::Pending, attempts));
    }
    let succeeded = Outcome::Succeeded { value: 5, attempts: 5 };
    assert_eq!(poll(&mut retry, &waker), Poll::Ready(succeeded));
    assert_eq!(engine.stats().scheduled, 0);
}

#[test]
fn a_panic_of_an_attempt_is_the_callers() {
    quietly();
    let engine = engine_by_hand();
    let retry = Retry::new(hundred()).attempt_timeout(MS);
    let retry = retry.run_async(&engine, async |number| {
        if number == 1 {
            panic_as_planned();
        }
        fail(number)
    });
    assert!(catch_unwind(AssertUnwindSafe(|| retry.now_or_never())).is_err());
    assert!(engine.is_empty() && engine.stats().panicked == 0);
}

#[test]
fn it_goes_where_its_parts_go_and_lasts_longer_than_the_reference_to_the_engine() {
    fn spawned<T: Send + 'static>(task: T) -> T {
        task
    }
    let retry = {
        let engine = engine_by_hand();
        spawned(Retry::new(hundred()).run_async(&engine, |number| ready(fail(number))))
    };
    assert_eq!(retry.now_or_never().map(|outcome| outcome.attempts()), Some(1));
}

#[test]
fn the_end_of_a_retry_comes_after_its_last_closure() {
    let (engine, fates, (bell, waker)) = (engine_by_hand(), Fates::new(2), bell());
    let (made, told) = (fates.token(0), fates.token(1));
    let attempt = move |number| {
        made.run();
        if number < 3 { Err(()) } else { Ok(()) }
    };
    let retrying = Retry::new(hundred()).run(&engine, attempt, move |_| told.run()).unwrap();
    let mut ended = Box::pin(retrying.ended());
    assert_eq!(poll(&mut ended, &waker), Poll::Pending);
    engine.advance(MS * 299).unwrap();
    assert_eq!((poll(&mut ended, &waker), bell.woken()), (Poll::Pending, 0));
    assert!(retrying.is_running());
    engine.advance(MS).unwrap();
    assert_eq!(bell.woken(), 1);
    assert_eq!((fates.of(0), fates.of(1)), ((3, 1), (1, 1)));
    assert_eq!(poll(&mut ended, &waker), Poll::Ready(Ok(End::Finished)));
    assert_eq!(retrying.ended().now_or_never(), Some(Ok(End::Finished)), "it stays so");
}

#[test]
fn the_end_of_what_repeats_is_told_whichever_side_ends_it() {
    for stops in [true, false] {
        let (engine, (bell, waker)) = (engine_by_hand(), bell());
        let retry = Retry::new(hundred());
        let retrying = retry.run(&engine, fail, drop).unwrap();
        let periodic = engine.every(MS * 30, compiled::task(|_| ())).unwrap();
        let mut ends: [Awaited<'_>; 2] = [Box::pin(retrying.ended()), Box::pin(periodic.ended())];
        engine.advance(MS * 50).unwrap();
        assert!(ends.iter_mut().all(|end| poll(end, &waker).is_pending()));
        let end = if stops {
            drop(engine.stop().unwrap());
            End::Stopped
        } else {
            assert!(retrying.cancel() && periodic.cancel());
            End::Cancelled
        };
        assert_eq!(bell.woken(), 2);
        assert!(ends.iter_mut().all(|ended| poll(ended, &waker) == Poll::Ready(Ok(end))));
    }
}

#[test]
fn an_attempt_does_not_wait_for_the_end_of_its_own_retry() {
    let (engine, own) = (engine_by_hand(), Arc::new(OnceLock::<Retrying>::new()));
    let inside = own.clone();
    let attempt = move |_| Ok::<_, ()>(inside.get().unwrap().ended().now_or_never());
    let told = Arc::new(OnceLock::new());
    let tell = told.clone();
    let done = move |outcome: Outcome<_, _>| tell.set(outcome.success().flatten()).unwrap();
    own.set(Retry::new(hundred()).run(&engine, attempt, done).unwrap()).unwrap();
    engine.advance(MS).unwrap();
    assert_eq!(told.get(), Some(&Some(Err(WaitError::InsideTask))));
}
