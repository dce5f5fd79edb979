//! A time limit for the services of `tower`.
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//! use tickless::Engine;
//! use tickless::future::tower::{TimeoutError, TimeoutLayer};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! let engine = Engine::new()?;
//! let slow = service_fn(async |seconds: u64| {
//!     tickless::sleep(Duration::from_secs(seconds)).await;
//!     Ok::<_, Infallible>(seconds)
//! });
//! let limit = TimeoutLayer::new(&engine, Duration::from_millis(5));
//! let service = ServiceBuilder::new().layer(limit).service(slow);
//! pollster::block_on(async {
//!     assert_eq!(service.clone().oneshot(0).await.unwrap(), 0);
//!     let error = service.oneshot(60).await.unwrap_err();
//!     assert!(matches!(error, TimeoutError::Elapsed));
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;

use crate::engine::Engine;

use super::{Sleep, SleepError};

/// Limits the time that each response of a service may take: a [`Layer`] that makes a [`Timeout`].
///
/// Clones are cheap and share the engine, which lives as long as one of them or of their services.
/// A response does not keep it: one that outlives them ends with [`TimeoutError::Refused`].
///
/// The [module](self) has an example.
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    engine: Engine,
    limit: Duration,
}

/// A service with a time limit for each response, on an engine. Made by [`TimeoutLayer`].
///
/// The time counts from the call, so the time until the service was ready to be called does not
/// count. When the limit has passed, the response's future ends with [`TimeoutError::Elapsed`]. The
/// inner future is dropped when the response's future is.
///
/// A response that is ready at its first poll needs no timer. All else costs one timer, which is
/// cancelled when the response is there.
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    inner: S,
    layer: TimeoutLayer,
}

/// The response of a [`Timeout`]: a future.
///
/// It is cancel safe if the inner future is. It panics if it is polled after it was ready, if the
/// inner future does.
#[derive(Debug)]
#[must_use = "a response does nothing unless it is awaited or polled"]
pub struct ResponseFuture<F> {
    /// Pinned with this; see `poll`.
    inner: F,
    /// Absent if there is no limit.
    sleep: Option<Sleep>,
}

/// Why a [`Timeout`] gave no response.
///
/// ```
/// use tickless::future::SleepError;
/// use tickless::future::tower::TimeoutError;
///
/// /// The status of the answer of an HTTP server.
/// fn status(error: &TimeoutError) -> u16 {
///     match error {
///         TimeoutError::Elapsed => 504,
///         TimeoutError::Refused(SleepError::Stopped) => 503,
///         _ => 500,
///     }
/// }
/// assert_eq!(status(&TimeoutError::Elapsed), 504);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TimeoutError {
    /// The limit has passed.
    Elapsed,
    /// The engine could not time the limit: the error says why. The response is given up, so that
    /// it does not run without a limit.
    Refused(SleepError),
    /// The service failed, within the limit. Its error can be [downcast](Error#method.downcast_ref)
    /// to the service's own type.
    Inner(Box<dyn Error + Send + Sync>),
}

// === impl TimeoutLayer ===

impl TimeoutLayer {
    /// Returns a layer that limits responses to `limit`, on `engine`. `Duration::ZERO` refuses each
    /// response that is not ready at its first poll; [`Duration::MAX`] is no limit, and needs no
    /// engine.
    pub fn new(engine: &Engine, limit: Duration) -> TimeoutLayer {
        TimeoutLayer { engine: engine.clone(), limit }
    }

    /// As [`new`](TimeoutLayer::new), on the [global engine](Engine::global).
    ///
    /// # Panics
    /// As [`Engine::global`] does, if this is its first use.
    #[track_caller]
    pub fn global(limit: Duration) -> TimeoutLayer {
        TimeoutLayer::new(Engine::global(), limit)
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout { inner, layer: self.clone() }
    }
}

// === impl Timeout ===

impl<S> Timeout<S> {
    /// Returns a reference to the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns a mutable reference to the inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner service, without a limit.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, Request> Service<Request> for Timeout<S>
where
    S: Service<Request>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = S::Response;
    type Error = TimeoutError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TimeoutError>> {
        self.inner.poll_ready(cx).map_err(TimeoutError::inner)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // First, so that the time which the call itself takes counts.
        let TimeoutLayer { engine, limit } = &self.layer;
        let sleep = (*limit < Duration::MAX).then(|| engine.sleep(*limit));
        ResponseFuture { inner: self.inner.call(request), sleep }
    }
}

// === impl ResponseFuture ===

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Output = Result<T, TimeoutError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `inner` is not moved here. It is pinned with this: nothing moves it out, there is
        // no `Drop`, and this is `Unpin` only if `inner` is. `sleep` is `Unpin`, and not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let inner = unsafe { Pin::new_unchecked(&mut this.inner) };
        if let Poll::Ready(output) = inner.poll(cx) {
            // The response may be kept long after this.
            this.sleep = None;
            return Poll::Ready(output.map_err(TimeoutError::inner));
        }
        let Some(sleep) = &mut this.sleep else { return Poll::Pending };
        sleep
            .poll_elapsed(cx)
            .map(|ended| Err(ended.map_or_else(TimeoutError::Refused, |()| TimeoutError::Elapsed)))
    }
}

// === impl TimeoutError ===

impl TimeoutError {
    fn inner(error: impl Into<Box<dyn Error + Send + Sync>>) -> TimeoutError {
        TimeoutError::Inner(error.into())
    }
}

impl fmt::Display for TimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeoutError::Elapsed => "the response took too long",
            TimeoutError::Refused(_) => "the response could not be timed",
            TimeoutError::Inner(_) => "the service failed",
        })
    }
}

impl Error for TimeoutError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            TimeoutError::Elapsed => None,
            TimeoutError::Refused(error) => Some(error),
            TimeoutError::Inner(error) => Some(&**error),
        }
    }
}
