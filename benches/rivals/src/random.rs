//! Delays and picks: a generator of its own in each thread, the same sequence in every run.

use std::time::Duration;

/// The 0.75 quantile of the standard normal distribution.
const UPPER_QUARTILE: f64 = 0.674_489_750_196_082;

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

// === impl Random ===

impl Random {
    /// A sequence for each seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xA24B_AED4_963E_E407))
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform below `bound`, which is not zero.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// As [`between`](Random::between), from whole seconds to whole seconds, without a division.
    #[inline]
    pub(crate) fn seconds(&mut self, least: u64, end: u64) -> Duration {
        let bits = self.next();
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

    /// Exponential, with mean 1: a gap of a Poisson process.
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Log-normal, with this median and upper quartile.
    pub(crate) fn log_normal(&mut self, median: f64, upper_quartile: f64) -> f64 {
        let sigma = (upper_quartile / median).ln() / UPPER_QUARTILE;
        median * (sigma * self.normal()).exp()
    }

    /// Standard normal, by the transform of Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Uniform above 0, up to 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
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
fn what_is_drawn_has_the_moments_of_its_distribution() {
    const DRAWS: usize = 100_000;
    let mut random = Random::new(3);
    let mean = |draws: &[f64]| draws.iter().sum::<f64>() / DRAWS as f64;
    let units: Vec<_> = (0..DRAWS).map(|_| random.unit()).collect();
    assert!(units.iter().all(|&unit| unit > 0.0 && unit <= 1.0));
    assert!((mean(&units) - 0.5).abs() < 0.01);
    let gaps: Vec<_> = (0..DRAWS).map(|_| random.exponential()).collect();
    assert!(gaps.iter().all(|&gap| gap >= 0.0) && (mean(&gaps) - 1.0).abs() < 0.02);
    let normals: Vec<_> = (0..DRAWS).map(|_| random.normal()).collect();
    let squares: Vec<_> = normals.iter().map(|normal| normal * normal).collect();
    assert!(mean(&normals).abs() < 0.02 && (mean(&squares) - 1.0).abs() < 0.03);
}
