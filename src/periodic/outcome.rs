//! How a retry came out.

use super::End;

/// How a retry came out: what its last closure is told.
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
        /// What it brought.
        value: T,
        /// How many attempts that took.
        attempts: u32,
    },
    /// The last attempt failed, and there was to be no other.
    GaveUp {
        /// What the last attempt failed with; `None`: nobody said, it was dropped unanswered.
        error: Option<E>,
        /// How many attempts were made.
        attempts: u32,
    },
    /// It was over before it came to an outcome.
    Ended {
        /// Why: it was cancelled, or its engine had stopped or was full.
        end: End,
        /// How many attempts had begun.
        attempts: u32,
    },
}

// === impl Outcome ===

impl<T, E> Outcome<T, E> {
    /// What the attempt that succeeded brought, if one did.
    pub fn success(self) -> Option<T> {
        match self {
            Outcome::Succeeded { value, .. } => Some(value),
            _ => None,
        }
    }

    /// How many attempts had begun.
    pub fn attempts(&self) -> u32 {
        match self {
            Outcome::Succeeded { attempts, .. }
            | Outcome::GaveUp { attempts, .. }
            | Outcome::Ended { attempts, .. } => *attempts,
        }
    }
}
