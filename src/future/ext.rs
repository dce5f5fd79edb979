//! Methods on futures.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use crate::engine::Engine;

use super::Timeout;

/// Deadlines for any future.
///
/// ```
/// use std::time::Duration;
/// use tickless::future::FutureExt;
///
/// let answer = async { 7 }.timeout(Duration::from_secs(5));
/// assert_eq!(pollster::block_on(answer), Ok(7));
/// ```
pub trait FutureExt: IntoFuture + Sized {
    /// As [`timeout`](crate::timeout).
    ///
    /// # Panics
    /// As [`Engine::global`], if this is its first use.
    fn timeout(self, delay: Duration) -> Timeout<Self::IntoFuture> {
        super::timeout(delay, self)
    }

    /// As [`timeout_at`](crate::timeout_at).
    ///
    /// # Panics
    /// As [`Engine::global`], if this is its first use.
    fn timeout_at(self, deadline: Instant) -> Timeout<Self::IntoFuture> {
        super::timeout_at(deadline, self)
    }

    /// As [`timeout`](FutureExt::timeout), on an engine of one's own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::future::FutureExt;
    /// let engine = Engine::new()?;
    /// let answer = async { 7 }.timeout_on(&engine, Duration::from_secs(5));
    /// assert_eq!(pollster::block_on(answer), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn timeout_on(self, engine: &Engine, delay: Duration) -> Timeout<Self::IntoFuture> {
        engine.timeout(delay, self)
    }

    /// As [`timeout_at`](FutureExt::timeout_at), on an engine of one's own: `deadline` is one of
    /// its clock's.
    fn timeout_at_on(self, engine: &Engine, deadline: Instant) -> Timeout<Self::IntoFuture> {
        engine.timeout_at(deadline, self)
    }
}

// === impl FutureExt ===

impl<F: IntoFuture> FutureExt for F {}
