//! A server of axum's and hyper's with all its limits, which an engine of the runtime times.

use std::error::Error;
use std::future::{Future, poll_fn, ready};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::map_request;
use axum::routing::{get, post};
use axum::{BoxError, Router};
use hyper::body::{Body as HttpBody, Frame, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tickless::Engine;
use tickless::future::tower::TimeoutLayer;
use tickless::future::{HyperTimer, Sleep};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

/// How long the parts of a connection may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The head of a request: after that, the connection ends.
    pub head: Duration,
    /// From one request to the next: after that, the connection ends when it has answered.
    pub idle: Duration,
    /// The body of a request: after that, reading it is an error (408).
    pub body: Duration,
    /// The answer to a request that brings no limit of its own: 504 is the answer after that.
    pub answer: Duration,
}

/// The limit for the answer to one request, among its extensions.
#[derive(Clone, Copy, Debug)]
pub struct Patience(pub Duration);

/// A body that has to end in time.
struct InTime {
    body: Body,
    limit: Sleep,
}

impl HttpBody for InTime {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        // (If the engine has stopped, it is over as well.)
        let over = self.limit.poll_elapsed(cx);
        over.map(|_| Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())))
    }
}

/// Adds the limits for bodies and for responses.
pub fn limited(routes: Router, engine: &Engine, limits: Limits) -> Router {
    let limit = move |request: &Request| {
        request.extensions().get().map_or(limits.answer, |Patience(patience)| *patience)
    };
    let answers = TimeoutLayer::by_request(engine, limit).with_status(StatusCode::GATEWAY_TIMEOUT);
    let engine = engine.clone();
    let prepare = move |mut request: Request| {
        if request.uri().path() == "/report" {
            request.extensions_mut().insert(Patience(10 * limits.answer));
        }
        let limit = engine.sleep(limits.body);
        ready(request.map(|body| Body::new(InTime { body, limit })))
    };
    // The last layer is the outermost.
    routes.layer(answers).layer(map_request(prepare))
}

/// Serves connections for ever.
pub async fn serve(app: Router, engine: Engine, listener: TcpListener, limits: Limits) {
    loop {
        // Too many files, or a peer that is gone already: the next may be better.
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(serve_one(app.clone(), engine.clone(), stream, limits));
    }
}

async fn serve_one(
    app: Router,
    engine: Engine,
    stream: TcpStream,
    limits: Limits,
) -> hyper::Result<()> {
    let (requests, mut seen) = (AtomicU64::new(0), 0);
    let service = hyper::service::service_fn(|request: hyper::Request<Incoming>| {
        requests.fetch_add(1, Ordering::Relaxed);
        app.clone().oneshot(request.map(Body::new))
    });
    let mut server = http1::Builder::new();
    server.timer(HyperTimer::new(&engine)).header_read_timeout(limits.head);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    let mut idle = engine.sleep(limits.idle);
    poll_fn(|cx| {
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            return Poll::Ready(ended);
        }
        let asked = requests.load(Ordering::Relaxed);
        if asked != seen {
            seen = asked;
            idle.reset(limits.idle);
        }
        if idle.poll_elapsed(cx).is_pending() {
            return Poll::Pending;
        }
        connection.as_mut().graceful_shutdown();
        connection.as_mut().poll(cx)
    })
    .await
}

/// What comes of a request whose body could not be read.
pub fn unreadable(error: axum::Error) -> StatusCode {
    let mut source: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(error) = source {
        match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::TimedOut) => return StatusCode::REQUEST_TIMEOUT,
            _ => source = error.source(),
        }
    }
    StatusCode::BAD_REQUEST
}

pub async fn echo(body: Body) -> Result<Bytes, StatusCode> {
    to_bytes(body, 1 << 20).await.map_err(unreadable)
}

async fn report() -> &'static str {
    tickless::sleep(Duration::from_secs(20)).await;
    "all is well"
}

#[tokio::main]
pub async fn main() -> Result<(), BoxError> {
    let second = Duration::from_secs(1);
    let limits =
        Limits { head: 10 * second, idle: 75 * second, body: 30 * second, answer: 5 * second };
    let engine = Engine::of_runtime()?;
    let routes = Router::new().route("/echo", post(echo)).route("/report", get(report));
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    serve(limited(routes, &engine, limits), engine, listener, limits).await;
    Ok(())
}
