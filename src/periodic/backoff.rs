//! Growing pauses between attempts.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long to pause between attempts: exponentially longer each time, up to a limit, with some
/// randomness so that those who failed together do not come back together.
///
/// By itself it is a description; [`delays`](Backoff::delays) is the pauses, an iterator that can
/// be used without an engine, and [`Retry`](super::Retry) the whole of it.
///
/// ```
/// use std::time::Duration;
/// use tickless::periodic::Backoff;
///
/// let ms = Duration::from_millis;
/// let backoff = Backoff::new(ms(100)).max(ms(1000));
/// let delays: Vec<_> = backoff.delays().take(6).collect();
/// assert_eq!(delays, [ms(100), ms(200), ms(400), ms(800), ms(1000), ms(1000)]);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a backoff does nothing by itself"]
pub struct Backoff {
    initial: Duration,
    factor: f64,
    max: Duration,
    jitter: Jitter,
    seed: Option<u64>,
}

/// How random a pause is.
///
/// ```
/// use std::time::Duration;
/// use tickless::periodic::{Backoff, Jitter};
///
/// let second = Duration::from_secs(1);
/// let equal = Backoff::new(second).factor(1.0).jitter(Jitter::Equal);
/// assert!(equal.delays().take(100).all(|delay| delay >= second / 2 && delay <= second));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Jitter {
    /// Not at all: those who failed together come back together.
    #[default]
    None,
    /// Anything from nothing to the whole pause: spreads best, and halves the pauses on average.
    Full,
    /// Half of it is certain, and the other half anything.
    Equal,
}

/// The pauses of a [`Backoff`], without end.
///
/// ```
/// use std::time::Duration;
/// use tickless::periodic::Backoff;
///
/// let mut delays = Backoff::new(Duration::from_secs(1)).delays();
/// assert_eq!(delays.next(), Some(Duration::from_secs(1)));
/// assert_eq!(delays.next(), Some(Duration::from_secs(2)));
/// ```
#[derive(Clone)]
pub struct Delays {
    next: Duration,
    factor: f64,
    max: Duration,
    jitter: Jitter,
    random: Random,
}

/// A small seeded generator: a counter with large steps, whose bits are mixed.
#[derive(Clone)]
struct Random(u64);

// === impl Backoff ===

impl Backoff {
    /// Pauses that begin with `initial`, anything from zero on. Default: each twice as long as the
    /// one before, at most a minute (or `initial`, if that is longer), without jitter.
    pub fn new(initial: Duration) -> Backoff {
        let max = initial.max(Duration::from_secs(60));
        Backoff { initial, factor: 2.0, max, jitter: Jitter::None, seed: None }
    }

    /// By what each pause is longer than the one before. Default 2. From 1, which is a constant
    /// pause; what is less, or not a number, counts as 1.
    ///
    /// The larger, the sooner a service that is down is left in peace, and the later it is noticed
    /// that it is up again.
    pub fn factor(mut self, factor: f64) -> Backoff {
        // Not a number is the smaller of the two.
        self.factor = factor.max(1.0);
        self
    }

    /// The longest pause. Default a minute; anything, up to [`Duration::MAX`], which is no limit.
    /// The first pause too is no longer than that.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::periodic::Backoff;
    /// let backoff = Backoff::new(Duration::from_secs(1)).max(Duration::MAX);
    /// assert_eq!(backoff.delays().nth(500), Some(Duration::MAX), "nothing overflows");
    /// ```
    pub fn max(mut self, max: Duration) -> Backoff {
        self.max = max;
        self
    }

    /// How random each pause is; the next still grows from what this one would be without. Default
    /// not at all. Where many clients retry the same service they should be random.
    pub fn jitter(mut self, jitter: Jitter) -> Backoff {
        self.jitter = jitter;
        self
    }

    /// Where the randomness comes from: the same seed gives the same pauses, for tests. Default:
    /// another seed for each use.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::periodic::{Backoff, Jitter};
    /// let backoff = Backoff::new(Duration::from_secs(1)).jitter(Jitter::Full).seed(7);
    /// assert!(backoff.delays().take(9).eq(backoff.delays().take(9)));
    /// ```
    pub fn seed(mut self, seed: u64) -> Backoff {
        self.seed = Some(seed);
        self
    }

    /// The pauses, from the first on: an iterator without end.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::periodic::Backoff;
    /// let total: Duration = Backoff::new(Duration::from_secs(1)).delays().take(4).sum();
    /// assert_eq!(total, Duration::from_secs(15));
    /// ```
    pub fn delays(&self) -> Delays {
        Delays {
            next: self.initial.min(self.max),
            factor: self.factor,
            max: self.max,
            jitter: self.jitter,
            // Each state of the standard library's hasher has keys of its own.
            random: Random(self.seed.unwrap_or_else(|| RandomState::new().hash_one(0))),
        }
    }
}

impl IntoIterator for Backoff {
    type Item = Duration;
    type IntoIter = Delays;

    /// The same as [`delays`](Backoff::delays).
    fn into_iter(self) -> Delays {
        self.delays()
    }
}

// === impl Delays ===

impl Delays {
    fn spread(&mut self, delay: Duration) -> Duration {
        let certain = match self.jitter {
            Jitter::None => return delay,
            Jitter::Full => Duration::ZERO,
            Jitter::Equal => delay / 2,
        };
        let open = delay - certain;
        // The fraction is below one, so that this does not overflow; it may be rounded up.
        certain + open.mul_f64(self.random.fraction()).min(open)
    }
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.next;
        let longer = delay.as_secs_f64() * self.factor;
        // What does not fit is longer than any limit.
        self.next = Duration::try_from_secs_f64(longer).unwrap_or(self.max).clamp(delay, self.max);
        Some(self.spread(delay))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl fmt::Debug for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delays").field("next", &self.next).finish_non_exhaustive()
    }
}

// === impl Random ===

impl Random {
    /// The next number, all bits of which are as good.
    fn next(&mut self) -> u64 {
        // The fraction of the golden ratio: a step that comes by every number, evenly.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From zero to below one, in steps that a float holds exactly.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
