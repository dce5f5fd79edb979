//! What a handler says of a timer that is not over, and how often one is tried.
//!
//! *Tested by*: `tests/durable/service.rs`.

use std::fmt::{self, Display};
use std::time::Duration;

/// What becomes of a timer whose handler has not done it: the error of a handler becomes one.
///
/// Any error that can be shown is a `Retry`: the timer is tried again after a
/// [pause](crate::Builder::backoff), as often as it [may](crate::Builder::attempts) be.
///
/// ```
/// use std::time::Duration;
/// use tickless_durable::{Firing, Retry};
///
/// fn handler(firing: &Firing<String>) -> Result<(), Retry> {
///     let Some(address) = firing.payload().strip_prefix("mail ") else {
///         return Err(Retry::never("it is no mail")); // A dead letter at once.
///     };
///     if address.ends_with(".example") {
///         return Err(Retry::after(Duration::from_secs(60))); // Not now. This is no attempt.
///     }
///     std::fs::write("outbox", address)?; // An error: the next attempt.
///     Ok(())
/// }
/// ```
pub struct Retry(pub(super) Verdict);

pub(super) enum Verdict {
    /// It has failed: perhaps there is another attempt.
    Failed(String),
    Later(Duration),
    Never(String),
}

/// How often a timer is tried, and for how long: see [`Builder::limits`](crate::Builder::limits).
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Limits {
    pub(super) attempts: Option<u32>,
    pub(super) within: Option<Duration>,
}

// === impl Retry ===

impl Retry {
    /// The timer comes again after this time, and this was none of its attempts: as if it had been
    /// due later. Its time is [limited](Limits::within) all the same.
    pub fn after(pause: Duration) -> Retry {
        Retry(Verdict::Later(pause))
    }

    /// The timer is a dead letter now, whatever attempts are left, with this as its error.
    pub fn never(reason: impl Display) -> Retry {
        Retry(Verdict::Never(reason.to_string()))
    }
}

impl<E: Display> From<E> for Retry {
    fn from(error: E) -> Retry {
        Retry(Verdict::Failed(error.to_string()))
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Verdict::Failed(error) => write!(f, "Retry({error:?})"),
            Verdict::Later(pause) => write!(f, "Retry::after({pause:?})"),
            Verdict::Never(reason) => write!(f, "Retry::never({reason:?})"),
        }
    }
}

// === impl Limits ===

impl Limits {
    /// No other limits than the service's.
    pub fn new() -> Limits {
        Limits::default()
    }

    /// How many attempts there are, at least one, instead of the service's
    /// [number](crate::Builder::attempts).
    pub fn attempts(mut self, attempts: u32) -> Limits {
        self.attempts = Some(attempts.max(1));
        self
    }

    /// How long after it was first due another attempt may begin. A timer that would come later
    /// becomes a dead letter. The first attempt is made in any case.
    pub fn within(mut self, time: Duration) -> Limits {
        self.within = Some(time);
        self
    }
}
