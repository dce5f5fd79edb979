//! The pauses between attempts: those of a backoff, without an engine, and others in a retry.

use std::iter;
use std::sync::mpsc;
use std::time::Duration;

use support::planned::{panic_as_planned, quietly};
use tickless::periodic::{Backoff, End, Jitter, Outcome, Retry};
use tickless::{Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

#[test]
fn pauses_grow_to_the_limit_and_nothing_overflows() {
    let delays = |backoff: Backoff, n| backoff.delays().take(n).collect::<Vec<_>>();
    let second = Duration::from_secs(1);
    assert_eq!(delays(Backoff::new(second).max(second * 5), 4), [1, 2, 4, 5].map(|n| second * n));
    assert_eq!(delays(Backoff::new(second * 9).max(second), 2), [second; 2], "the first as well");
    assert_eq!(delays(Backoff::new(second * 99), 2), [second * 99; 2], "unless nobody said so");
    for factor in [1.0, 0.5, 0.0, -3.0, f64::NAN, f64::NEG_INFINITY] {
        assert_eq!(delays(Backoff::new(second).factor(factor), 3), [second; 3], "{factor}");
    }
    for factor in [f64::MAX, f64::INFINITY] {
        let backoff = Backoff::new(second).factor(factor).max(Duration::MAX);
        assert_eq!(delays(backoff, 3), [second, Duration::MAX, Duration::MAX]);
    }
    let zero = Backoff::new(Duration::ZERO).factor(f64::INFINITY).max(second);
    assert!(zero.delays().take(3).all(|delay| delay <= second));
    let huge = Backoff::new(Duration::MAX).max(Duration::MAX).jitter(Jitter::Equal).seed(1);
    assert!(huge.delays().take(100).all(|delay| delay >= Duration::MAX / 2));
}

#[test]
fn jitter_keeps_within_its_bounds_and_reaches_all_of_them() {
    let second = Duration::from_secs(1);
    for (jitter, least) in [(Jitter::Full, Duration::ZERO), (Jitter::Equal, second / 2)] {
        let backoff = Backoff::new(second).factor(1.0).jitter(jitter).seed(99);
        let delays: Vec<_> = backoff.delays().take(10_000).collect();
        let (shortest, longest) = (*delays.iter().min().unwrap(), *delays.iter().max().unwrap());
        assert!(shortest >= least && shortest < least + MS * 2, "{shortest:?}");
        assert!(longest <= second && longest > second - MS * 2, "{longest:?}");
        let mean = delays.iter().sum::<Duration>() / 10_000;
        let middle = least + (second - least) / 2;
        assert!(mean.abs_diff(middle) < MS * 20, "{mean:?}");
    }
}

#[test]
fn a_seed_makes_jitter_repeat_itself_and_no_seed_does_not() {
    let backoff = Backoff::new(Duration::from_secs(1)).jitter(Jitter::Full);
    let twenty = |backoff: &Backoff| backoff.delays().take(20).collect::<Vec<_>>();
    let seeded = backoff.clone().seed(1);
    assert_eq!(twenty(&seeded), twenty(&seeded));
    assert_ne!(twenty(&seeded), twenty(&backoff.clone().seed(2)));
    assert_ne!(twenty(&backoff), twenty(&backoff));
}

/// The times at which attempts begin that all fail, in ms, and how that came out.
fn attempts<P>(retry: Retry<P>) -> (Vec<u128>, Outcome<(), &'static str>)
where
    P: IntoIterator<Item = Duration, IntoIter: Send + 'static>,
{
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let (began, begins) = mpsc::channel();
    let (sender, outcome) = mpsc::channel();
    let attempt = move |_| {
        began.send(clock.elapsed().as_millis()).unwrap();
        Err("out of tea")
    };
    retry.run(&engine, attempt, move |outcome| sender.send(outcome).unwrap()).unwrap();
    engine.advance(Duration::from_secs(1)).unwrap();
    assert!(engine.is_empty());
    (begins.iter().collect(), outcome.recv().unwrap())
}

#[test]
fn pauses_come_from_any_iterator_and_end_the_retry_where_they_end() {
    let (began, outcome) = attempts(Retry::new([5, 2].map(Duration::from_millis)));
    assert_eq!(began, [0, 5, 7]);
    assert_eq!(outcome, Outcome::GaveUp { error: Some("out of tea"), attempts: 3 });

    let (began, _) = attempts(Retry::new((1..).map(Duration::from_millis)).attempts(4));
    assert_eq!(began, [0, 1, 3, 6]);
    let (began, _) = attempts(Retry::new([]));
    assert_eq!(began, [0]);
}

#[test]
fn a_panic_of_the_iterator_over_pauses_ends_the_retry() {
    quietly();
    let first = iter::once(Duration::from_millis(1));
    let pauses = first.chain(iter::once_with(|| panic_as_planned()));
    let (began, outcome) = attempts(Retry::new(pauses));
    assert_eq!(began, [0, 1]);
    assert_eq!(outcome, Outcome::Ended { end: End::Panicked, attempts: 2 });
}
