//! Delays and picks: a generator of its own in each thread, the same sequence in every run.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, LogNormal};

/// The 0.75 quantile of the standard normal distribution.
const UPPER_QUARTILE: f64 = 0.674_489_750_196_082;

/// A small seeded generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(SmallRng);

// === impl Random ===

impl Random {
    /// A sequence for each seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(SmallRng::seed_from_u64(seed))
    }

    /// Uniform below `bound`, which is not zero.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.random_range(..bound)
    }

    /// As [`between`](Random::between), from whole seconds to whole seconds, without a division.
    #[inline]
    pub(crate) fn seconds(&mut self, least: u64, end: u64) -> Duration {
        let bits: u64 = self.0.random();
        let secs = least + (((bits >> 32) * (end - least)) >> 32);
        let nanos = ((bits & u64::from(u32::MAX)) * 1_000_000_000) >> 32;
        Duration::new(secs, nanos as u32)
    }

    /// Uniform from `least` up to, not including, `end`.
    #[inline]
    pub(crate) fn between(&mut self, least: Duration, end: Duration) -> Duration {
        let span_ns = end.saturating_sub(least).as_nanos() as u64;
        least + Duration::from_nanos(self.below(span_ns.max(1)))
    }

    /// Uniform from 0 up to, not including, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Exponential, with mean 1: a gap of a Poisson process.
    pub(crate) fn exponential(&mut self) -> f64 {
        Exp1.sample(&mut self.0)
    }

    /// Log-normal, with this median and upper quartile.
    pub(crate) fn log_normal(&mut self, median: f64, upper_quartile: f64) -> f64 {
        let sigma = (upper_quartile / median).ln() / UPPER_QUARTILE;
        LogNormal::new(median.ln(), sigma).expect("a finite sigma").sample(&mut self.0)
    }
}

#[test]
fn delays_keep_to_their_bounds_and_repeat() {
    let (least, end) = (Duration::from_millis(3), Duration::from_millis(5));
    let draw = |seed| {
        let mut random = Random::new(seed);
        (0..1_000).map(|_| random.between(least, end)).collect::<Vec<_>>()
    };
    assert!(draw(1).iter().all(|delay| (least..end).contains(delay)));
    let mut random = Random::new(1);
    let seconds: Vec<_> = (0..1_000).map(|_| random.seconds(10, 30)).collect();
    let bounds = Duration::from_secs(10)..Duration::from_secs(30);
    assert!(seconds.iter().all(|delay| bounds.contains(delay)));
    assert!(seconds.iter().any(|delay| delay.as_secs() == 29));
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    assert_eq!(Random::new(1).between(least, least), least);
}

#[test]
fn delays_are_log_normal_with_the_median_and_the_upper_quartile_that_were_asked_for() {
    const DRAWS: usize = 100_000;
    let mut random = Random::new(3);
    let draws: Vec<_> = (0..DRAWS).map(|_| random.log_normal(20.0, 50.0)).collect();
    let share_below =
        |bound| draws.iter().filter(|&&draw| draw < bound).count() as f64 / DRAWS as f64;
    assert!((share_below(20.0) - 0.5).abs() < 0.01, "{}", share_below(20.0));
    assert!((share_below(50.0) - 0.75).abs() < 0.01, "{}", share_below(50.0));
}
