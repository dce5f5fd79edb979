//! Hyper's server and client on the engine's timer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Sleep as HyperSleep, Timer};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use hyper_util::rt::TokioIo;
use tickless::future::{HyperTimer, OnRefusal};
use tickless::{Engine, ManualClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);

const HEADERS_WITHIN: Duration = Duration::from_millis(30);

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

/// Longer than any machine makes a client wait.
const HOUR: Duration = Duration::from_secs(3600);

/// Waits until no timer is left. (One that its owner drops just as a reaper fires it is counted
/// until the reaper hands it over.)
async fn emptied(engine: &Engine) {
    while !engine.is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Serves one connection, whose headers come within a limit, and says how it ended.
async fn serve_one(
    timer: HyperTimer,
    limit: Duration,
) -> (SocketAddr, JoinHandle<hyper::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut server = server::conn::http1::Builder::new();
        server.timer(timer).header_read_timeout(limit);
        server.serve_connection(TokioIo::new(stream), service_fn(hello)).await
    });
    (address, serving)
}

/// Runs `body` on tokio, without tokio's own timers.
fn on_tokio(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(body);
}

/// Asks three times.
async fn ask(address: SocketAddr) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..3 {
        let request = Request::builder().uri("/").body(Empty::<Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    }
    drop(sender);
    connection.await.unwrap().unwrap();
}

/// Begins to ask.
async fn begin_to_ask(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: loca").await.unwrap();
    stream
}

#[test]
fn a_client_that_asks_in_time_is_answered() {
    on_tokio(async {
        let engine = Engine::new().unwrap();
        let (address, serving) = serve_one(HyperTimer::new(&engine), HOUR).await;
        ask(address).await;
        serving.await.unwrap().unwrap();
        assert!(engine.stats().scheduled > 0, "the server asked this timer");
        assert!(engine.is_empty(), "no timer outlives its connection");
    });
}

#[test]
fn a_client_that_does_not_finish_its_headers_is_shut_out() {
    on_tokio(async {
        let engine = Engine::new().unwrap();
        let (address, serving) = serve_one(HyperTimer::new(&engine), HEADERS_WITHIN).await;
        let begin = Instant::now();
        let mut stream = begin_to_ask(address).await;
        let error = serving.await.unwrap().unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert!(begin.elapsed() >= HEADERS_WITHIN);
        let mut rest = Vec::new();
        // Whether the connection ends or breaks, nothing more comes.
        let _ = stream.read_to_end(&mut rest).await;
        // (A sleep that is polled only when it is due needs no timer.)
        emptied(&engine).await;
        assert!(engine.stats().fired <= 1);
    });
}

/// An engine that takes no timer: it has stopped.
fn refusing() -> Engine {
    let stopped = Engine::new().unwrap();
    stopped.stop().unwrap();
    stopped
}

#[test]
fn without_an_engine_a_connection_ends_at_its_first_limit() {
    on_tokio(async {
        let engine = refusing();
        let (address, serving) = serve_one(HyperTimer::new(&engine), HOUR).await;
        let _stream = begin_to_ask(address).await;
        let error = serving.await.expect("no panic").unwrap_err();
        assert!(error.is_timeout(), "{error}");
    });
}

#[test]
fn or_it_has_no_limits_and_serves() {
    on_tokio(async {
        let engine = refusing();
        let timer = HyperTimer::new(&engine).on_refusal(OnRefusal::Never);
        let (address, serving) = serve_one(timer, HOUR).await;
        ask(address).await;
        serving.await.expect("no panic").unwrap();
    });
}

#[test]
fn or_its_task_panics() {
    on_tokio(async {
        let engine = refusing();
        let timer = HyperTimer::new(&engine).on_refusal(OnRefusal::Panic);
        let (address, serving) = serve_one(timer, HOUR).await;
        let _stream = begin_to_ask(address).await;
        assert!(serving.await.unwrap_err().is_panic());
    });
}

/// Where the sleep is that hyper holds.
fn address(sleep: &Pin<Box<dyn HyperSleep>>) -> *const () {
    (&raw const **sleep).cast()
}

#[test]
fn a_deadline_that_hyper_moves_is_the_same_timer_moved() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let timer = HyperTimer::new(&engine);
    assert_eq!(timer.now(), engine.now());
    let mut sleep = timer.sleep(MS * 10);
    let before = address(&sleep);
    let is_ready = |sleep: &mut Pin<Box<dyn HyperSleep>>| {
        futures_util::FutureExt::now_or_never(sleep).is_some()
    };
    assert!(!is_ready(&mut sleep));
    for _ in 0..10 {
        engine.advance(MS * 9).unwrap();
        timer.reset(&mut sleep, engine.now() + MS * 10);
        assert!(!is_ready(&mut sleep));
    }
    assert_eq!((address(&sleep), engine.stats().scheduled), (before, 1));
    engine.advance(MS * 10).unwrap();
    assert!(is_ready(&mut sleep));
    let mut until = timer.sleep_until(engine.now() + MS);
    assert!(!is_ready(&mut until));
    engine.advance(MS).unwrap();
    assert!(is_ready(&mut until));
}

#[test]
fn the_time_for_hyper_is_never_behind_the_engines() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let timer = HyperTimer::new(&engine);
    for _ in 0..100_000 {
        let (engines, hypers) = (engine.now(), timer.now());
        assert!(hypers >= engines, "{hypers:?} {engines:?}");
    }
}

/// Somebody else's sleep.
struct Foreign;

impl Future for Foreign {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        std::task::Poll::Pending
    }
}

impl HyperSleep for Foreign {}

#[test]
fn a_sleep_that_is_not_the_engines_is_replaced() {
    let timer = HyperTimer::global();
    let mut sleep: Pin<Box<dyn HyperSleep>> = Box::pin(Foreign);
    timer.reset(&mut sleep, timer.now() + MS);
    pollster::block_on(sleep);
}
