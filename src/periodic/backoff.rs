//! Growing pauses between attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The pauses between attempts: exponentially longer each time, up to a limit, with optional
/// randomness so that clients that failed together do not come back together.
///
/// A backoff is only a description. [`delays`](Backoff::delays) returns the pauses as an iterator,
/// which also works without an engine; [`Retry`](super::Retry) makes the attempts.
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

/// The randomness of a pause.
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
    /// No randomness: clients that failed together come back together.
    #[default]
    None,
    /// Between zero and the whole pause: spreads best, and halves the pauses on average.
    Full,
    /// Half of the pause is fixed, and the other half random.
    Equal,
}

/// The pauses of a [`Backoff`]: an iterator that never ends.
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
    backoff: Backoff,
    next: Duration,
    random: u64,
}

// === impl Backoff ===

impl Backoff {
    /// A backoff whose first pause is `initial`, which may be zero. Default: each pause is twice as
    /// long as the one before, at most a minute (or `initial`, if that is longer), without jitter.
    pub fn new(initial: Duration) -> Backoff {
        let max = initial.max(Duration::from_secs(60));
        Backoff { initial, factor: 2.0, max, jitter: Jitter::None, seed: None }
    }

    /// The ratio of each pause to the one before. Default 2. At least 1, which is a constant pause;
    /// smaller values and NaN count as 1.
    ///
    /// A larger factor puts less load on a service that is down, and notices later that it is up
    /// again.
    pub fn factor(mut self, factor: f64) -> Backoff {
        // `max` returns 1 for NaN.
        self.factor = factor.max(1.0);
        self
    }

    /// The longest pause. Default a minute, or the first pause if that is longer. [`Duration::MAX`]
    /// is no limit. The limit also holds for the first pause.
    pub fn max(mut self, max: Duration) -> Backoff {
        self.max = max;
        self
    }

    /// The randomness of each pause. The next pause grows from the value without randomness.
    /// Default none. Use jitter if many clients retry the same service.
    pub fn jitter(mut self, jitter: Jitter) -> Backoff {
        self.jitter = jitter;
        self
    }

    /// The seed of the randomness: the same seed gives the same pauses, for tests. Default: a new
    /// random seed for each use.
    pub fn seed(mut self, seed: u64) -> Backoff {
        self.seed = Some(seed);
        self
    }

    /// The pauses, starting with the first: an iterator that never ends.
    pub fn delays(&self) -> Delays {
        Delays {
            backoff: self.clone(),
            next: self.initial.min(self.max),
            // Each `RandomState` has keys of its own.
            random: self.seed.unwrap_or_else(|| RandomState::new().hash_one(0)),
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
        let certain = match self.backoff.jitter {
            Jitter::None => return delay,
            Jitter::Full => Duration::ZERO,
            Jitter::Equal => delay / 2,
        };
        let open = delay - certain;
        // The fraction is below one, so this does not overflow. The product may be rounded up.
        certain + open.mul_f64(self.fraction()).min(open)
    }

    /// A random number from zero to below one, in steps that an `f64` represents exactly.
    fn fraction(&mut self) -> f64 {
        // 2^64 divided by the golden ratio: an odd step, which visits every number, evenly.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // All bits are equally random.
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.next;
        let Backoff { factor, max, .. } = self.backoff;
        let longer = Duration::try_from_secs_f64(delay.as_secs_f64() * factor);
        // A pause that does not fit a `Duration` is longer than any limit.
        self.next = longer.unwrap_or(max).clamp(delay, max);
        Some(self.spread(delay))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

debug! { impl[] Delays[] { next = |this| this.next } }
