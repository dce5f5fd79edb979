//! Retries: when attempts begin, how they come out, and who is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use support::mpsc;
use support::planned::{panic_as_planned, quietly};
use support::threads::{on_threads, spawn};
use tickless::periodic::{Attempt, Backoff, End, Outcome, Retry, Retrying, StartReason};
// One that ThreadSanitizer can follow.
use tickless::{Engine, ManualClock};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

type Told = Arc<Mutex<Vec<Outcome<u32, String>>>>;

/// An engine on a clock that is moved by hand, and what it was told.
struct Bench {
    clock: ManualClock,
    engine: Engine,
    began: Arc<Mutex<Vec<u128>>>,
    told: Told,
}

impl Bench {
    fn new() -> Bench {
        let clock = ManualClock::new();
        let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
        Bench { clock, engine, began: Arc::default(), told: Told::default() }
    }

    /// A retry whose attempts fail before that number.
    fn run(&self, retry: Retry, succeeds_at: u32) -> Retrying {
        let (began, clock) = (self.began.clone(), self.clock.clone());
        let attempt = move |number| {
            began.lock().unwrap().push(clock.elapsed().as_millis());
            if number < succeeds_at { Err(format!("failure {number}")) } else { Ok(number * 10) }
        };
        retry.run(&self.engine, attempt, self.done()).unwrap()
    }

    /// One whose attempts come out here.
    fn start(&self, retry: Retry) -> (Retrying, mpsc::Receiver<Attempt<u32, String>>) {
        let (sender, receiver) = mpsc::channel();
        let attempt = move |attempt| drop(sender.send(attempt));
        (retry.start(&self.engine, attempt, self.done()).unwrap(), receiver)
    }

    fn done(&self) -> impl FnOnce(Outcome<u32, String>) + Send + use<> {
        let told = self.told.clone();
        move |outcome| told.lock().unwrap().push(outcome)
    }

    fn advance(&self, by: Duration) {
        self.engine.advance(by).unwrap();
    }

    fn began(&self) -> Vec<u128> {
        self.began.lock().unwrap().clone()
    }

    /// What was told, which is told once.
    fn outcome(&self) -> Option<Outcome<u32, String>> {
        let mut told = self.told.lock().unwrap();
        assert!(told.len() <= 1, "{told:?}");
        told.pop()
    }
}

fn hundred() -> Backoff {
    Backoff::new(MS * 100)
}

#[test]
fn attempts_begin_at_once_and_then_after_pauses_that_double() {
    let bench = Bench::new();
    let retrying = bench.run(Retry::new(hundred()), 5);
    assert_eq!(retrying.attempts(), 0, "not in `run` itself");
    bench.advance(Duration::ZERO);
    assert_eq!((retrying.attempts(), bench.outcome()), (1, None));
    bench.advance(MS * 10_000);
    assert_eq!(bench.began(), [0, 100, 300, 700, 1500]);
    assert_eq!(bench.outcome(), Some(Outcome::Succeeded { value: 50, attempts: 5 }));
    assert_eq!((retrying.end(), bench.engine.len()), (Some(End::Finished), 0));
    assert!(!retrying.cancel());
}

#[test]
fn it_gives_up_after_as_many_attempts_as_were_allowed() {
    for most in [0, 1, 3] {
        let bench = Bench::new();
        bench.run(Retry::new(hundred()).attempts(most), u32::MAX);
        bench.advance(MS * 10_000);
        let attempts = most.max(1);
        assert_eq!(bench.began().len() as u32, attempts);
        let error = Some(format!("failure {attempts}"));
        assert_eq!(bench.outcome(), Some(Outcome::GaveUp { error, attempts }));
    }
}

#[test]
fn it_gives_up_at_once_where_the_next_attempt_would_begin_too_late() {
    let bench = Bench::new();
    bench.run(Retry::new(hundred()).within(MS * 699), u32::MAX);
    bench.advance(MS * 300);
    assert_eq!(bench.began(), [0, 100, 300]);
    let outcome = bench.outcome().expect("not at 699, but when that was clear");
    assert_eq!(outcome.attempts(), 3);

    let bench = Bench::new();
    bench.run(Retry::new(hundred()).within(MS * 700), u32::MAX);
    bench.advance(MS * 10_000);
    assert_eq!(bench.began(), [0, 100, 300, 700]);
}

#[test]
fn a_cancel_during_a_pause_is_told_at_once_and_frees_everything() {
    let bench = Bench::new();
    let retrying = bench.run(Retry::new(hundred()), u32::MAX);
    bench.advance(MS * 150);
    assert_eq!(bench.engine.len(), 1);
    assert!(retrying.cancel() && !retrying.cancel());
    assert_eq!(bench.outcome(), Some(Outcome::Ended { end: End::Cancelled, attempts: 2 }));
    assert_eq!(bench.engine.len(), 0);
    assert_eq!(Arc::strong_count(&bench.told), 1, "the closures are gone");
    assert_eq!(Arc::strong_count(&bench.began), 1);
}

#[test]
fn an_attempt_is_answered_later_and_the_pause_counts_from_there() {
    let bench = Bench::new();
    let (retrying, attempts) = bench.start(Retry::new(hundred()));
    bench.advance(MS * 5);
    let first = attempts.try_recv().unwrap();
    bench.advance(MS * 995);
    assert!(attempts.try_recv().is_err() && bench.engine.is_empty(), "it waits for the answer");
    assert_eq!((first.number(), first.is_over()), (1, false));
    first.fail("no route".to_owned());
    bench.advance(MS * 99);
    assert!(attempts.try_recv().is_err());
    bench.advance(MS);
    // It is dropped unanswered, which is a failure; the pause is twice as long now.
    drop(attempts.try_recv().unwrap());
    bench.advance(MS * 200);
    let third = attempts.try_recv().unwrap();
    assert_eq!(bench.outcome(), None);
    spawn(move || third.succeed(7)).join().unwrap();
    assert_eq!(bench.outcome(), Some(Outcome::Succeeded { value: 7, attempts: 3 }));
    assert_eq!((retrying.end(), retrying.attempts()), (Some(End::Finished), 3));
}

#[test]
fn the_last_attempt_tells_what_it_failed_with_if_it_says_so() {
    let bench = Bench::new();
    let (_, attempts) = bench.start(Retry::new(hundred()).attempts(1));
    bench.advance(MS);
    drop(attempts.recv().unwrap());
    assert_eq!(bench.outcome(), Some(Outcome::GaveUp { error: None, attempts: 1 }));

    let (_, attempts) = bench.start(Retry::new(hundred()));
    bench.advance(MS);
    attempts.recv().unwrap().give_up("wrong password".to_owned());
    let error = Some("wrong password".to_owned());
    assert_eq!(bench.outcome(), Some(Outcome::GaveUp { error, attempts: 1 }));
    assert!(bench.engine.is_empty());
}

#[test]
fn a_cancel_while_an_attempt_is_out_is_told_at_once_and_the_answer_comes_to_nothing() {
    let bench = Bench::new();
    let (retrying, attempts) = bench.start(Retry::new(hundred()));
    bench.advance(MS);
    let attempt = attempts.recv().unwrap();
    assert!(retrying.cancel());
    assert_eq!(bench.outcome(), Some(Outcome::Ended { end: End::Cancelled, attempts: 1 }));
    assert!(attempt.is_over());
    attempt.succeed(7);
    bench.advance(MS * 10_000);
    assert_eq!((bench.outcome(), retrying.end()), (None, Some(End::Cancelled)));
    assert!(attempts.recv().is_err(), "no other attempt was made, and its closure is gone");
}

#[test]
fn what_comes_too_late_is_dropped_by_its_bringer() {
    let engine = Engine::builder().manual_clock(&ManualClock::new()).build().unwrap();
    let token = Arc::new(());
    let (sender, attempts) = mpsc::channel::<Attempt<Arc<()>, ()>>();
    let retrying = Retry::new(hundred())
        .start(&engine, move |attempt| drop(sender.send(attempt)), drop)
        .unwrap();
    engine.advance(MS).unwrap();
    let attempt = attempts.recv().unwrap();
    assert!(retrying.cancel());
    attempt.succeed(token.clone());
    assert_eq!(Arc::strong_count(&token), 1, "though the handle is still there");
    drop(retrying);
}

#[test]
fn an_attempt_that_takes_too_long_has_failed_and_its_answer_is_not_heard() {
    let bench = Bench::new();
    let retry = Retry::new(hundred()).attempts(3).attempt_timeout(MS * 50);
    let (retrying, attempts) = bench.start(retry);
    bench.advance(MS * 49);
    let first = attempts.recv().unwrap();
    assert!(!first.is_over());
    bench.advance(MS);
    assert!(first.is_over() && retrying.is_running());
    first.succeed(1);
    bench.advance(MS * 99);
    assert_eq!((retrying.attempts(), bench.outcome()), (1, None));
    // At 150: the second, which fails by itself after 20; its limit is gone then.
    bench.advance(MS * 21);
    assert_eq!(bench.engine.len(), 1);
    attempts.recv().unwrap().fail("no route".to_owned());
    assert_eq!(bench.engine.len(), 1);
    // At 370: the third, which nobody answers; as the last it tells no error.
    bench.advance(MS * 249);
    assert_eq!((retrying.attempts(), bench.outcome()), (3, None));
    bench.advance(MS);
    assert_eq!(bench.outcome(), Some(Outcome::GaveUp { error: None, attempts: 3 }));
    assert!(attempts.recv().unwrap().is_over() && bench.engine.is_empty());
}

#[test]
fn a_limited_attempt_that_is_answered_in_time_leaves_no_timer() {
    for answer in 0..4 {
        let bench = Bench::new();
        let retry = Retry::new(hundred()).attempts(1).attempt_timeout(MS * 50);
        let (retrying, attempts) = bench.start(retry);
        bench.advance(MS * 10);
        let attempt = attempts.recv().unwrap();
        match answer {
            0 => attempt.succeed(7),
            1 => drop(attempt),
            2 => attempt.give_up(String::new()),
            _ => {
                assert!(retrying.cancel() && attempt.is_over());
                drop(attempt);
            }
        }
        assert_eq!(bench.outcome().map(|outcome| outcome.attempts()), Some(1));
        assert!(bench.engine.is_empty());
    }
}

#[test]
fn an_engine_that_ends_fails_a_limited_attempt_and_makes_no_other() {
    let bench = Bench::new();
    let retry = || Retry::new(hundred()).attempt_timeout(MS * 50);
    let ended = |attempts| Outcome::Ended { end: End::Stopped, attempts };
    // While it waits for the answer.
    let (retrying, attempts) = bench.start(retry());
    bench.advance(MS);
    let attempt = attempts.recv().unwrap();
    let (other, others) = bench.start(retry());
    // The limit of the one, and the first attempt of the other.
    assert!(bench.engine.stop().unwrap().is_empty());
    bench.told.lock().unwrap().sort_by_key(Outcome::attempts);
    assert_eq!(*bench.told.lock().unwrap(), [0, 1].map(ended));
    assert!(attempt.is_over() && others.recv().is_err(), "the other was never made");
    assert_eq!((retrying.end(), other.end()), (Some(End::Stopped), Some(End::Stopped)));
}

#[test]
fn an_attempt_may_cancel_its_own_retry_and_then_its_success_is_not_told() {
    let bench = Bench::new();
    let own: Arc<Mutex<Option<Retrying>>> = Arc::default();
    let inside = own.clone();
    let attempt = move |number| {
        assert!(inside.lock().unwrap().take().unwrap().cancel());
        Ok(number)
    };
    let retrying = Retry::new(hundred()).run(&bench.engine, attempt, bench.done()).unwrap();
    *own.lock().unwrap() = Some(retrying.clone());
    bench.advance(MS);
    assert_eq!(bench.outcome(), Some(Outcome::Ended { end: End::Cancelled, attempts: 1 }));
    assert_eq!(retrying.end(), Some(End::Cancelled));
}

#[test]
fn an_answer_whose_own_attempt_cancels_then_is_dropped_with_the_retry() {
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    let own: Arc<Mutex<Option<Retrying>>> = Arc::default();
    let (inside, token) = (own.clone(), Arc::new(()));
    let answer = token.clone();
    let attempt = move |attempt: Attempt<Arc<()>, ()>| {
        attempt.succeed(answer.clone());
        assert!(inside.lock().unwrap().take().unwrap().cancel());
    };
    let retrying = Retry::new(hundred()).start(&engine, attempt, drop).unwrap();
    *own.lock().unwrap() = Some(retrying.clone());
    engine.advance(MS).unwrap();
    assert_eq!(Arc::strong_count(&token), 1, "though the handle is still there");
    assert_eq!(retrying.end(), Some(End::Cancelled));
}

#[test]
fn an_attempt_that_panics_has_failed_and_the_next_is_made() {
    quietly();
    let bench = Bench::new();
    let later = |attempt: Attempt<u32, String>| {
        if attempt.number() < 3 {
            panic_as_planned();
        }
        attempt.succeed(3);
    };
    Retry::new(hundred()).start(&bench.engine, later, bench.done()).unwrap();
    bench.advance(MS * 1000);
    assert_eq!(bench.outcome(), Some(Outcome::Succeeded { value: 3, attempts: 3 }));
    assert_eq!(bench.engine.stats().panicked, 2);
}

#[test]
fn an_engine_that_stops_is_told() {
    let bench = Bench::new();
    let retrying = bench.run(Retry::new(hundred()), u32::MAX);
    bench.advance(MS * 50);
    assert!(bench.engine.stop().unwrap().is_empty());
    assert_eq!(bench.outcome(), Some(Outcome::Ended { end: End::Stopped, attempts: 1 }));
    assert_eq!(retrying.end(), Some(End::Stopped));

    let refused = Retry::new(hundred()).run(&bench.engine, |_| Ok(1), bench.done());
    assert_eq!(refused.unwrap_err().reason(), StartReason::Stopped);
    assert_eq!(bench.outcome(), None, "the closure came back, and was not called");
}

#[test]
fn an_answer_after_the_engine_has_gone_is_still_told_and_a_failure_is_the_end() {
    for succeeds in [true, false] {
        let bench = Bench::new();
        let (retrying, attempts) = bench.start(Retry::new(hundred()));
        bench.advance(MS);
        let attempt = attempts.recv().unwrap();
        let Bench { engine, told, .. } = bench;
        drop(engine);
        assert!(retrying.is_running(), "the attempt is under way");
        match succeeds {
            true => attempt.succeed(7),
            false => attempt.fail("no route".to_owned()),
        }
        let expected = match succeeds {
            true => Outcome::Succeeded { value: 7, attempts: 1 },
            false => Outcome::Ended { end: End::Stopped, attempts: 1 },
        };
        assert_eq!(*told.lock().unwrap(), [expected]);
    }
}

#[test]
fn answers_cancels_and_attempts_that_race_come_out_once_each() {
    const RETRIES: usize = 300;
    let engine = Engine::builder().tick(Duration::from_micros(50)).shards(2).build().unwrap();
    let (sender, attempts) = mpsc::channel::<Attempt<u32, ()>>();
    let attempts = Mutex::new(attempts);
    let told: Arc<Vec<AtomicU32>> = Arc::new((0..RETRIES).map(|_| AtomicU32::new(0)).collect());
    let begin = |number: usize| {
        let (sender, told) = (sender.clone(), told.clone());
        let attempt = move |attempt| drop(sender.send(attempt));
        let done = move |_| {
            told[number].fetch_add(1, Ordering::SeqCst);
        };
        let backoff = Backoff::new(Duration::from_micros(20)).factor(1.0);
        let mut retry = Retry::new(backoff).attempts(20);
        if number % 2 == 0 {
            // About as long as some of the answers take.
            retry = retry.attempt_timeout(Duration::from_micros(100));
        }
        retry.start(&engine, attempt, done).unwrap()
    };
    let retries: Vec<_> = (0..RETRIES).map(begin).collect();
    drop(sender);
    let (role, cancelled) = (AtomicU32::new(0), AtomicU32::new(0));
    on_threads::<4>(|| match role.fetch_add(1, Ordering::SeqCst) {
        0 => {
            // Those of every third, from the other end.
            for retrying in retries.iter().rev().step_by(3) {
                cancelled.fetch_add(u32::from(retrying.cancel()), Ordering::SeqCst);
            }
        }
        _ => loop {
            // The last closure that can send is gone when all are over.
            let Ok(attempt) = attempts.lock().unwrap().recv() else { break };
            match attempt.number() % 10 {
                0 => attempt.succeed(1),
                5 => drop(attempt),
                _ => attempt.fail(()),
            }
        },
    });
    let ends = retries.iter().map(|retrying| retrying.end().expect("all are over"));
    let by_cancel = ends.filter(|end| *end == End::Cancelled).count();
    assert_eq!(by_cancel, cancelled.into_inner() as usize);
    drop(engine.stop().unwrap());
    assert!(told.iter().all(|told| told.load(Ordering::SeqCst) == 1));
    assert_eq!(engine.len(), 0);
}
