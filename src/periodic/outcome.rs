//! The outcome of a retry.

use super::End;

/// The outcome of a retry, passed to its last closure (`done`).
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::periodic::{Backoff, Outcome, Retry};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let retry = Retry::new(Backoff::new(Duration::from_secs(1))).attempts(3);
/// retry.run(
///     &engine,
///     |number| if number < 3 { Err("busy") } else { Ok("connected") },
///     |outcome| match outcome {
///         Outcome::Succeeded { value, attempts } => println!("{value} at attempt {attempts}"),
///         Outcome::GaveUp { error, attempts } => println!("{error:?} after {attempts} attempts"),
///         other => println!("{other:?}"),
///     },
/// )?;
/// engine.advance(Duration::from_secs(10))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome<T, E> {
    /// An attempt succeeded.
    Succeeded {
        /// The value that it brought.
        value: T,
        /// The number of attempts made.
        attempts: u32,
    },
    /// The last attempt failed, and the limits allowed no other, or it was [given
    /// up](super::Attempt::give_up).
    GaveUp {
        /// The error of the last attempt; `None`: the attempt was dropped without an answer, or
        /// panicked, or timed out. Or the engine had stopped, and could not time it; then the
        /// attempt was not made.
        error: Option<E>,
        /// The number of attempts made.
        attempts: u32,
    },
    /// The retry was over before it succeeded or gave up.
    Ended {
        /// The reason: it was cancelled, its engine had stopped, or the iterator over pauses
        /// panicked.
        end: End,
        /// The number of attempts that had begun.
        attempts: u32,
    },
}

// === impl Outcome ===

impl<T, E> Outcome<T, E> {
    /// The value of the successful attempt, if there was one.
    pub fn success(self) -> Option<T> {
        match self {
            Outcome::Succeeded { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The number of attempts that had begun.
    pub fn attempts(&self) -> u32 {
        match self {
            Outcome::Succeeded { attempts, .. }
            | Outcome::GaveUp { attempts, .. }
            | Outcome::Ended { attempts, .. } => *attempts,
        }
    }
}
