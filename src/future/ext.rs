//! Methods that add a deadline to any future.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use crate::engine::Engine;

use super::Timeout;

/// Adds methods to all futures that give them a deadline.
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
    /// As [`Engine::global`] does, if this is its first use.
    fn timeout(self, delay: Duration) -> Timeout<Self::IntoFuture> {
        super::timeout(delay, self)
    }

    /// As [`timeout_at`](crate::timeout_at).
    ///
    /// # Panics
    /// As [`Engine::global`] does, if this is its first use.
    fn timeout_at(self, deadline: Instant) -> Timeout<Self::IntoFuture> {
        super::timeout_at(deadline, self)
    }

    /// As [`timeout`](FutureExt::timeout), on `engine`.
    fn timeout_on(self, engine: &Engine, delay: Duration) -> Timeout<Self::IntoFuture> {
        engine.timeout(delay, self)
    }

    /// As [`timeout_at`](FutureExt::timeout_at), on `engine`. `deadline` is by that engine's clock.
    fn timeout_at_on(self, engine: &Engine, deadline: Instant) -> Timeout<Self::IntoFuture> {
        engine.timeout_at(deadline, self)
    }
}

// === impl FutureExt ===

impl<F: IntoFuture> FutureExt for F {}
