//! A future with a deadline.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::engine::{Engine, EngineRef};

use super::{Elapsed, Sleep};

/// A future with a deadline. Created by [`timeout`], [`timeout_at`],
/// [`FutureExt`](super::FutureExt) and [`Engine::timeout`].
///
/// Each poll polls the inner future first, and checks the deadline only if that is not ready. So a
/// future that is ready at once needs no timer and no allocation, even if the deadline has passed.
/// The inner future is never interrupted within a poll: if it computes without yielding, it runs
/// past its deadline.
///
/// Dropping a timeout drops the inner future and cancels the timer. It is cancel safe if the inner
/// future is.
///
/// ```
/// use std::future::Ready;
/// use std::time::Duration;
/// use tickless::future::{FutureExt, Timeout};
///
/// let timeout: Timeout<Ready<u32>> = std::future::ready(7).timeout(Duration::from_secs(5));
/// assert_eq!(pollster::block_on(timeout), Ok(7));
/// ```
#[derive(Debug)]
#[must_use = "a timeout does nothing unless it is awaited or polled"]
pub struct Timeout<F> {
    /// Pinned with the timeout; see `poll`.
    inner: F,
    sleep: Sleep,
}

/// Limits `future` to `delay`, counted from this call, on the [global engine](Engine::global).
///
/// # Errors
/// The timeout returns [`Elapsed`] if the deadline comes first. If the engine is full or has
/// stopped, it cannot time the deadline, and the timeout returns [`Elapsed`] at once:
/// [`Elapsed::cause`] says which.
///
/// ```
/// use std::future::{pending, ready};
/// use std::time::Duration;
///
/// let soon = Duration::from_millis(5);
/// pollster::block_on(async {
///     assert_eq!(tickless::timeout(soon, ready(7)).await, Ok(7));
///     assert!(tickless::timeout(soon, pending::<()>()).await.is_err());
/// });
/// ```
///
/// # Panics
/// As [`Engine::global`] does, if this is its first use.
pub fn timeout<F: IntoFuture>(delay: Duration, future: F) -> Timeout<F::IntoFuture> {
    let sleep = Sleep::after(EngineRef::new(Engine::global()), delay);
    Timeout::new(future.into_future(), sleep)
}

/// Limits `future` to the time until `deadline`, as [`timeout`] does.
///
/// # Errors
/// As [`timeout`].
///
/// ```
/// use std::time::{Duration, Instant};
///
/// // Several steps share one deadline.
/// let deadline = Instant::now() + Duration::from_secs(5);
/// pollster::block_on(async {
///     tickless::timeout_at(deadline, async { /* connect */ }).await?;
///     tickless::timeout_at(deadline, async { /* ask */ }).await
/// })?;
/// # Ok::<(), tickless::future::Elapsed>(())
/// ```
///
/// # Panics
/// As [`Engine::global`] does, if this is its first use.
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    let sleep = Sleep::until(EngineRef::new(Engine::global()), Some(deadline));
    Timeout::new(future.into_future(), sleep)
}

// === impl Timeout ===

impl<F> Timeout<F> {
    pub(super) fn new(inner: F, sleep: Sleep) -> Timeout<F> {
        Timeout { inner, sleep }
    }

    /// Returns a reference to the inner future.
    pub fn get_ref(&self) -> &F {
        &self.inner
    }

    /// Returns a mutable reference to the inner future. (For a pinned timeout this needs an inner
    /// future that is `Unpin`.)
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    /// Returns the inner future, without a deadline, and cancels the timer.
    pub fn into_inner(self) -> F {
        self.inner
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `inner` is not moved here. It is pinned with the timeout: no method moves it out
        // of a pinned timeout, there is no `Drop`, nothing is packed, and the timeout is `Unpin`
        // only if `inner` is. `sleep` is `Unpin`, and not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let inner = unsafe { Pin::new_unchecked(&mut this.inner) };
        if let Poll::Ready(output) = inner.poll(cx) {
            // The timeout may be kept long after this.
            this.sleep.cancel();
            return Poll::Ready(Ok(output));
        }
        this.sleep.poll_elapsed(cx).map(|ended| {
            Err(match ended {
                Ok(()) => Elapsed::DEADLINE,
                Err(error) => Elapsed::because(error),
            })
        })
    }
}
