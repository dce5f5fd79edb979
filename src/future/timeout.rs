//! A future with a deadline.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::future::FusedFuture;

use crate::engine::{Engine, When};

use super::{Sleep, SleepError, sleep, sleep_until};

/// A future with a deadline. Created by [`timeout`], [`timeout_at`],
/// [`FutureExt`] and [`Engine::timeout`].
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

/// The error of a [`Timeout`]: the deadline came before the future was ready.
///
/// If the engine cannot time a timeout (because it has stopped, or the task [must not
/// wait](SleepError::Circular)), the timeout ends with this error at once, so that the future does
/// not run without a limit. [`cause`](Elapsed::cause) tells the two cases apart.
///
/// ```
/// use std::future::pending;
/// use std::io;
/// use std::time::Duration;
///
/// let answer = pollster::block_on(tickless::timeout(Duration::from_millis(3), pending::<()>()));
/// let error = answer.unwrap_err();
/// assert_eq!(error.cause(), None, "it was the deadline");
/// assert_eq!(error.to_string(), "the deadline has passed");
/// assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed {
    cause: Option<SleepError>,
}

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
    #[track_caller]
    fn timeout(self, delay: Duration) -> Timeout<Self::IntoFuture> {
        timeout(delay, self)
    }

    /// As [`timeout_at`](crate::timeout_at).
    ///
    /// # Panics
    /// As [`Engine::global`] does, if this is its first use.
    #[track_caller]
    fn timeout_at(self, deadline: Instant) -> Timeout<Self::IntoFuture> {
        timeout_at(deadline, self)
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

/// Limits `future` to `delay`, counted from this call, on the [ambient engine](Engine::enter).
///
/// # Errors
/// The timeout returns [`Elapsed`] if the deadline comes first. If the engine cannot time the
/// deadline, it returns [`Elapsed`] at once. [`Elapsed::cause`] says which.
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
#[track_caller]
pub fn timeout<F: IntoFuture>(delay: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout { inner: future.into_future(), sleep: sleep(delay) }
}

/// Limits `future` to the time until `deadline`, as [`timeout`] does. `deadline` is by the clock of
/// the [ambient engine](Engine::enter).
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
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { inner: future.into_future(), sleep: sleep_until(deadline) }
}

// === impl Engine: timeouts ===

impl Engine {
    /// As [`timeout`](crate::timeout), on this engine. `when` is a delay from this call, an
    /// [`Instant`] by the engine's clock, or a [`When`].
    pub fn timeout<F: IntoFuture>(
        &self,
        when: impl Into<When>,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep(when))
    }

    /// As [`timeout_at`](crate::timeout_at), on this engine. `deadline` is by the engine's clock.
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep_until(deadline))
    }
}

// === impl FutureExt ===

impl<F: IntoFuture> FutureExt for F {}

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
        // SAFETY: it is pinned with this, as was said.
        let inner = unsafe { Pin::new_unchecked(&mut this.inner) };
        if let Poll::Ready(output) = inner.poll(cx) {
            // The timeout may be kept long after this.
            this.sleep.cancel();
            return Poll::Ready(Ok(output));
        }
        this.sleep.poll_elapsed(cx).map(|ended| Err(Elapsed::of(ended)))
    }
}

/// Terminated once the deadline has passed, or the inner future is.
impl<F: FusedFuture> FusedFuture for Timeout<F> {
    fn is_terminated(&self) -> bool {
        self.inner.is_terminated() || self.sleep.is_terminated()
    }
}

// === impl Elapsed ===

impl Elapsed {
    /// The sleep of a limit has ended.
    pub(super) fn of(ended: Result<(), SleepError>) -> Elapsed {
        Elapsed { cause: ended.err() }
    }

    /// Returns `None` if the deadline has passed, or else why the engine could not time it.
    ///
    /// ```
    /// use std::future::pending;
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::future::SleepError;
    ///
    /// let engine = Engine::new()?;
    /// engine.stop()?;
    /// let answer = pollster::block_on(engine.timeout(Duration::from_secs(5), pending::<()>()));
    /// assert_eq!(answer.unwrap_err().cause(), Some(SleepError::Stopped));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cause(&self) -> Option<SleepError> {
        self.cause
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cause {
            None => "the deadline has passed",
            Some(_) => "the deadline could not be timed",
        })
    }
}

impl Error for Elapsed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as &(dyn Error + 'static))
    }
}

/// The kind is `TimedOut` if the deadline has passed, or else `Other`.
impl From<Elapsed> for io::Error {
    fn from(error: Elapsed) -> io::Error {
        match error.cause {
            None => io::Error::new(io::ErrorKind::TimedOut, error),
            Some(_) => io::Error::other(error),
        }
    }
}
