//! A time limit for the services of `tower`.
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//! use tickless::Engine;
//! use tickless::future::Elapsed;
//! use tickless::future::tower::TimeoutLayer;
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
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
//!     let error: BoxError = service.oneshot(60).await.unwrap_err();
//!     assert!(error.is::<Elapsed>());
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

#[cfg(feature = "http")]
use http::{Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use crate::engine::Engine;

use super::{Elapsed, Sleep};

/// What a service with a limit fails with, as all of tower's own layers that add errors.
type BoxError = Box<dyn Error + Send + Sync>;

/// Limits the time that each response of a service may take: a [`Layer`] that makes a [`Timeout`].
///
/// Clones are cheap and share the engine, which lives as long as one of them or of their services.
/// A response does not keep it: one that outlives them ends with an [`Elapsed`] that has a
/// [cause](Elapsed::cause).
///
/// The [module](self) has an example.
///
/// `L` says the limit: a [`Duration`] for all requests, or a closure that is passed the request.
/// `A` says what comes of a response that is late: an error ([`Fail`]), or an answer with a status
/// (`with_status`, feature `http`).
#[derive(Clone, Debug)]
pub struct TimeoutLayer<L = Duration, A = Fail> {
    engine: Engine,
    limit: L,
    late: A,
}

/// A response that is late fails, with an [`Elapsed`].
#[derive(Clone, Copy, Debug)]
pub struct Fail(());

/// A response that is late is answered, with a status and without a body: see
/// [`with_status`](TimeoutLayer::with_status).
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug)]
pub struct Respond(StatusCode);

/// The limit of the response to a request: one for all, or a closure's.
pub trait RequestLimit<Request>: sealed::Sealed<Request> {
    /// The time that the response may take. [`Duration::MAX`] is no limit.
    fn limit_for(&self, request: &Request) -> Duration;
}

mod sealed {
    use std::time::Duration;

    pub trait Sealed<Request> {}

    impl<Request> Sealed<Request> for Duration {}
    impl<Request, F: Fn(&Request) -> Duration> Sealed<Request> for F {}
}

/// A service with a time limit for each response, on an engine. Made by [`TimeoutLayer`].
///
/// The time counts from the call, so the time until the service was ready to be called does not
/// count. When the limit has passed, the response's future ends with [`Elapsed`]. (So it does if
/// the engine cannot time the limit: [`Elapsed::cause`] says why. A response never runs without its
/// limit.) The inner future is dropped when the response's future is.
///
/// The error is a boxed one, as with tower's own layers: an [`Elapsed`], or the service's own.
/// [`downcast_ref`](Error#method.downcast_ref) tells them apart. (With a status, there is no error
/// but the service's own, of its own type.)
///
/// A response that is ready at its first poll needs no timer. All else costs one timer, which is
/// cancelled when the response is there.
#[derive(Clone, Debug)]
pub struct Timeout<S, L = Duration, A = Fail> {
    inner: S,
    layer: TimeoutLayer<L, A>,
}

/// The response of a [`Timeout`]: a future.
///
/// It is cancel safe if the inner future is. It panics if it is polled after it was ready, if the
/// inner future does.
#[derive(Debug)]
#[must_use = "a response does nothing unless it is awaited or polled"]
pub struct ResponseFuture<F, A = Fail> {
    /// Pinned with this; see `poll_in_time`.
    inner: F,
    /// Absent if there is no limit.
    sleep: Option<Sleep>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "all errors are the same"))]
    late: A,
}

// === impl TimeoutLayer ===

impl TimeoutLayer {
    /// Returns a layer that limits responses to `limit`, on `engine`. `Duration::ZERO` refuses each
    /// response that is not ready at its first poll; [`Duration::MAX`] is no limit, and needs no
    /// engine.
    pub fn new(engine: &Engine, limit: Duration) -> TimeoutLayer {
        TimeoutLayer { engine: engine.clone(), limit, late: Fail(()) }
    }

    /// As [`new`](TimeoutLayer::new), on the [global engine](Engine::global) or, inside a tokio
    /// runtime, on what code that names no engine uses there in its place.
    ///
    /// # Panics
    /// As [`Engine::global`] does, if this is its first use.
    #[track_caller]
    pub fn global(limit: Duration) -> TimeoutLayer {
        TimeoutLayer::new(&Engine::of_place(), limit)
    }
}

impl<L> TimeoutLayer<L> {
    /// As [`new`](TimeoutLayer::new), with a limit of its own for each response: `limit` is called
    /// with the request. An HTTP server may take it from the request's path, a header, or its
    /// extensions, where what lies above has put it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::future::tower::TimeoutLayer;
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// /// A request that says how long its sender waits.
    /// struct Request {
    ///     patience: Option<Duration>,
    /// }
    ///
    /// let engine = Engine::new()?;
    /// let usual = Duration::from_secs(5);
    /// let limit = move |request: &Request| request.patience.map_or(usual, |it| it.min(usual));
    /// let never = service_fn(|_: Request| std::future::pending::<std::io::Result<()>>());
    /// let layer = TimeoutLayer::by_request(&engine, limit);
    /// let service = ServiceBuilder::new().layer(layer).service(never);
    /// let request = Request { patience: Some(Duration::from_millis(5)) };
    /// assert!(pollster::block_on(service.oneshot(request)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_request<Request>(engine: &Engine, limit: L) -> TimeoutLayer<L>
    where
        L: Fn(&Request) -> Duration,
    {
        TimeoutLayer { engine: engine.clone(), limit, late: Fail(()) }
    }

    /// Answers a request whose response is late, instead of failing: with `status`, and an empty
    /// body. If the engine cannot time the limit, because it has stopped, the status is 503. The
    /// errors of the service stay as they are: one that cannot fail still cannot, as axum asks of
    /// its layers.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    /// use http::{Request, Response, StatusCode};
    /// use tickless::Engine;
    /// use tickless::future::tower::TimeoutLayer;
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// let engine = Engine::new()?;
    /// let limit = TimeoutLayer::new(&engine, Duration::from_millis(5));
    /// let service = ServiceBuilder::new()
    ///     .layer(limit.with_status(StatusCode::GATEWAY_TIMEOUT))
    ///     .service(service_fn(|_: Request<()>| {
    ///         std::future::pending::<Result<Response<String>, Infallible>>()
    ///     }));
    /// let Ok(response) = pollster::block_on(service.oneshot(Request::new(())));
    /// assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "http")]
    pub fn with_status(self, status: StatusCode) -> TimeoutLayer<L, Respond> {
        TimeoutLayer { engine: self.engine, limit: self.limit, late: Respond(status) }
    }
}

impl<S, L: Clone, A: Clone> Layer<S> for TimeoutLayer<L, A> {
    type Service = Timeout<S, L, A>;

    fn layer(&self, inner: S) -> Timeout<S, L, A> {
        Timeout { inner, layer: self.clone() }
    }
}

// === impl Timeout ===

impl<S, L, A> Timeout<S, L, A> {
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

    fn begin<Request>(&mut self, request: Request) -> ResponseFuture<S::Future, A>
    where
        S: Service<Request>,
        L: RequestLimit<Request>,
        A: Clone,
    {
        // First, so that the time which the call itself takes counts.
        let TimeoutLayer { engine, limit, late } = &self.layer;
        let limit = limit.limit_for(&request);
        let sleep = (limit < Duration::MAX).then(|| engine.sleep(limit));
        ResponseFuture { inner: self.inner.call(request), sleep, late: late.clone() }
    }
}

impl<S, L, Request> Service<Request> for Timeout<S, L>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
    L: RequestLimit<Request>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.begin(request)
    }
}

#[cfg(feature = "http")]
impl<S, L, Request, B> Service<Request> for Timeout<S, L, Respond>
where
    S: Service<Request, Response = Response<B>>,
    L: RequestLimit<Request>,
    B: Default,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, Respond>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.begin(request)
    }
}

// === impl RequestLimit ===

impl<Request> RequestLimit<Request> for Duration {
    fn limit_for(&self, _: &Request) -> Duration {
        *self
    }
}

impl<Request, F: Fn(&Request) -> Duration> RequestLimit<Request> for F {
    fn limit_for(&self, request: &Request) -> Duration {
        self(request)
    }
}

// === impl ResponseFuture ===

impl<F: Future, A> ResponseFuture<F, A> {
    fn poll_in_time(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, Elapsed>> {
        // SAFETY: `inner` is not moved here. It is pinned with this: nothing moves it out, there is
        // no `Drop`, and this is `Unpin` only if `inner` is. `sleep` is `Unpin`, and not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: it is pinned with this, as was said.
        let inner = unsafe { Pin::new_unchecked(&mut this.inner) };
        if let Poll::Ready(output) = inner.poll(cx) {
            // The response may be kept long after this.
            this.sleep = None;
            return Poll::Ready(Ok(output));
        }
        let Some(sleep) = &mut this.sleep else { return Poll::Pending };
        sleep.poll_elapsed(cx).map(|ended| Err(Elapsed::of(ended)))
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_in_time(cx).map(|output| output?.map_err(Into::into))
    }
}

#[cfg(feature = "http")]
impl<F, B, E> Future for ResponseFuture<F, Respond>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Default,
{
    type Output = Result<Response<B>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Respond(status) = self.late;
        self.poll_in_time(cx).map(|output| {
            output.unwrap_or_else(|elapsed| {
                let mut response = Response::new(B::default());
                *response.status_mut() = match elapsed.cause() {
                    None => status,
                    Some(_) => StatusCode::SERVICE_UNAVAILABLE,
                };
                Ok(response)
            })
        })
    }
}
