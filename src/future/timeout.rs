//! A future with a deadline.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::engine::{Engine, EngineRef};

use super::{Elapsed, Sleep};

/// A future that has until its deadline to be ready: from [`timeout`], [`timeout_at`],
/// [`FutureExt`](super::FutureExt) and [`Engine::timeout`].
///
/// Each poll polls the inner future first, and its deadline only if that is not ready: a future
/// that is ready at once needs no timer and no allocation, whatever the deadline. Nothing
/// interrupts the inner future: one that computes without ever waiting ends its own poll.
///
/// Dropping it drops the inner future and cancels the timer; it is cancel safe if the inner
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
    /// Pinned where the timeout is; see `poll`.
    inner: F,
    sleep: Sleep,
}

/// Gives `future` as long as `delay`, counted from this call, on the process's own engine.
///
/// # Errors
/// Awaiting it answers [`Elapsed`] if the deadline comes first. It also does, at once, if the
/// engine is full or has stopped, since nobody could tell then when to give up:
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
/// As [`Engine::global`], if this is its first use.
pub fn timeout<F: IntoFuture>(delay: Duration, future: F) -> Timeout<F::IntoFuture> {
    let sleep = Sleep::after(EngineRef::new(Engine::global()), delay);
    Timeout::new(future.into_future(), sleep)
}

/// Gives `future` until `deadline`, as [`timeout`] does.
///
/// # Errors
/// As [`timeout`].
///
/// ```
/// use std::time::{Duration, Instant};
///
/// // What several steps share is a point in time.
/// let deadline = Instant::now() + Duration::from_secs(5);
/// pollster::block_on(async {
///     tickless::timeout_at(deadline, async { /* connect */ }).await?;
///     tickless::timeout_at(deadline, async { /* ask */ }).await
/// })?;
/// # Ok::<(), tickless::future::Elapsed>(())
/// ```
///
/// # Panics
/// As [`Engine::global`], if this is its first use.
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    let sleep = Sleep::until(EngineRef::new(Engine::global()), Some(deadline));
    Timeout::new(future.into_future(), sleep)
}

// === impl Timeout ===

impl<F> Timeout<F> {
    pub(super) fn new(inner: F, sleep: Sleep) -> Timeout<F> {
        Timeout { inner, sleep }
    }

    /// The inner future.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let timeout = tickless::timeout(Duration::from_secs(5), std::future::ready(7));
    /// assert_eq!(timeout.get_ref().clone().into_inner(), 7);
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.inner
    }

    /// The inner future, to be changed. (A timeout that is pinned lends it only if it is `Unpin`.)
    ///
    /// ```
    /// # use std::time::Duration;
    /// let mut timeout = tickless::timeout(Duration::from_secs(5), std::future::ready(7));
    /// *timeout.get_mut() = std::future::ready(8);
    /// assert_eq!(pollster::block_on(timeout), Ok(8));
    /// ```
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    /// The inner future, which goes on without a deadline. Cancels the timer.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let timeout = tickless::timeout(Duration::ZERO, std::future::ready(7));
    /// assert_eq!(pollster::block_on(timeout.into_inner()), 7);
    /// ```
    pub fn into_inner(self) -> F {
        self.inner
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `inner` is not moved here. It is pinned with the timeout: no method moves it out
        // of one that is behind a pin, there is no `Drop`, nothing is packed, and the timeout is
        // `Unpin` only if `inner` is. `sleep` is `Unpin`, and not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let inner = unsafe { Pin::new_unchecked(&mut this.inner) };
        if let Poll::Ready(output) = inner.poll(cx) {
            // The timeout may be kept for long after this.
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
