//! The server of the page `adapters`, which has all the limits that a server has: each of them ends
//! what takes too long, and nothing else.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use tickless::{Engine, ManualClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::server::{Limits, echo, limited, serve};

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

const HOUR: Duration = Duration::from_secs(3600);

/// Nothing takes too long.
const PATIENT: Limits = Limits { head: HOUR, idle: HOUR, body: HOUR, answer: HOUR };

const HELLO: &str = "POST /echo HTTP/1.1\r\nhost: here\r\ncontent-length: 5\r\n\r\nhello";

/// An answer that comes when it is to.
#[derive(Clone, Default)]
struct Report {
    begun: Arc<Notify>,
    ready: Arc<Notify>,
}

/// Serves with these limits, and connects.
async fn connect(engine: &Engine, limits: Limits, report: &Report) -> [TcpStream; 2] {
    let report = report.clone();
    let ready = move || async move {
        report.begun.notify_one();
        report.ready.notified().await;
        "ready"
    };
    let routes = Router::new()
        .route("/echo", post(echo))
        .route("/never", get(pending::<&'static str>))
        .route("/report", get(ready));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(limited(routes, engine, limits), engine.clone(), listener, limits));
    [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()]
}

/// What a request is answered with: the status, and the whole up to where it ends.
async fn ask(stream: &mut TcpStream, request: &str, end: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut answer, mut buffer) = (String::new(), [0; 1024]);
    while !answer.ends_with(end) {
        let length = stream.read(&mut buffer).await.unwrap();
        assert_ne!(length, 0, "it ended with {answer:?}");
        answer.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    }
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    (status.unwrap().parse().unwrap(), answer)
}

fn get_request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n")
}

/// Until the server ends the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    // (It is reset, if the server has not read all.)
    let _end = stream.read_to_end(&mut rest).await;
    String::from_utf8(rest).unwrap()
}

/// Lets time pass in steps until a future is ready.
async fn while_time_passes<T>(
    engine: &Engine,
    step: Duration,
    future: impl Future<Output = T>,
) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = futures_util::poll!(&mut future) {
            return output;
        }
        engine.advance(step).unwrap();
        tokio::task::yield_now().await;
    }
}

/// Whose time passes when a test says so.
fn by_hand() -> Engine {
    Engine::builder().manual_clock(&ManualClock::new()).shards(1).build().unwrap()
}

#[tokio::test]
async fn what_is_in_time_is_answered() {
    let engine = Engine::of_runtime().unwrap();
    let [mut one, mut other] = connect(&engine, PATIENT, &Report::default()).await;
    for _ in 0..3 {
        assert_eq!(ask(&mut one, HELLO, "hello").await.0, 200);
        assert_eq!(ask(&mut other, HELLO, "hello").await.0, 200);
    }
}

/// A report brings its own limit, which is longer.
#[tokio::test]
async fn an_answer_that_is_late_is_one_with_a_status() {
    let (engine, report) = (by_hand(), Report::default());
    let limits = Limits { answer: SECOND, ..PATIENT };
    let [mut never, mut reports] = connect(&engine, limits, &report).await;
    let late = get_request("/never");
    let answer = ask(&mut never, &late, "\r\n\r\n");
    assert_eq!(while_time_passes(&engine, SECOND, answer).await.0, 504);
    assert_eq!(ask(&mut never, HELLO, "hello").await.0, 200, "the connection goes on");
    let asked = get_request("/report");
    let in_time = async {
        report.begun.notified().await;
        engine.advance(9 * SECOND).unwrap();
        report.ready.notify_one();
    };
    let (answer, ()) = tokio::join!(ask(&mut reports, &asked, "ready"), in_time);
    assert_eq!(answer.0, 200);
    let answer = ask(&mut reports, &asked, "\r\n\r\n");
    assert_eq!(while_time_passes(&engine, SECOND, answer).await.0, 504);
}

#[tokio::test]
async fn a_body_that_is_late_is_an_error() {
    let engine = by_hand();
    let limits = Limits { body: MS, ..PATIENT };
    let [mut stream, _other] = connect(&engine, limits, &Report::default()).await;
    assert_eq!(ask(&mut stream, HELLO, "hello").await.0, 200);
    let answer = ask(&mut stream, &HELLO[..HELLO.len() - 2], "\r\n\r\n");
    assert_eq!(while_time_passes(&engine, MS, answer).await.0, 408);
}

#[tokio::test]
async fn a_head_that_is_late_ends_the_connection() {
    let engine = by_hand();
    let limits = Limits { head: MS, ..PATIENT };
    let [mut stream, _other] = connect(&engine, limits, &Report::default()).await;
    stream.write_all(b"GET /never HT").await.unwrap();
    while_time_passes(&engine, MS, rest(stream)).await;
}

#[tokio::test]
async fn a_connection_ends_that_is_idle_and_not_one_that_waits_for_its_answer() {
    let (engine, report) = (by_hand(), Report::default());
    let limits = Limits { idle: SECOND, ..PATIENT };
    let [mut idle, mut waits] = connect(&engine, limits, &report).await;
    assert_eq!(ask(&mut idle, HELLO, "hello").await.0, 200);
    waits.write_all(get_request("/report").as_bytes()).await.unwrap();
    report.begun.notified().await;
    engine.advance(SECOND).unwrap();
    assert_eq!(rest(idle).await, "");
    report.ready.notify_one();
    assert!(rest(waits).await.ends_with("ready"));
}

#[tokio::test]
async fn where_nothing_can_be_timed_nothing_runs_without_its_limit() {
    let engine = by_hand();
    let [mut stream, _other] = connect(&engine, PATIENT, &Report::default()).await;
    assert_eq!(ask(&mut stream, HELLO, "hello").await.0, 200);
    engine.stop().unwrap();
    let _ = stream.write_all(get_request("/never").as_bytes()).await;
    let rest = rest(stream).await;
    assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 503"), "{rest}");
}
