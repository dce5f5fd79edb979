//! The pauses of a backoff, without an engine.

use std::time::Duration;

use tickless::periodic::{Backoff, Jitter};

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
