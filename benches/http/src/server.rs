//! The server, a process of its own. It says its port on a line; then, for each line that it reads,
//! what it has used up and done so far; and it ends with its input.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io::{BufRead, Write, stdin, stdout};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_scale::cpu_ns;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;

use crate::timers::{ANSWER, SILENCE, ServerTimers};

/// Requests of connections that ended, and of those that did not.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// A request for this path and a number is answered after that many milliseconds.
pub(crate) const DELAY: &str = "/delay/";

/// Connections that wait until they are accepted, at most: thousands come at once.
const BACKLOG: u32 = 32_768;

/// Serves until the input ends.
pub(crate) fn serve<T: ServerTimers>(timers: T, runtime: &Runtime) -> Result<(), Box<dyn Error>> {
    let entered = runtime.enter();
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    drop(entered);
    say(&listener.local_addr()?.port())?;
    runtime.spawn(accept(timers, listener));
    for line in stdin().lock().lines() {
        line?;
        say(&json!({
            "cpu_ns": cpu_ns(),
            "requests": REQUESTS.load(Ordering::Relaxed),
            "timer_calls": timers.calls(),
        }))?;
    }
    std::process::exit(0)
}

fn say(what: &dyn std::fmt::Display) -> std::io::Result<()> {
    let mut output = stdout().lock();
    writeln!(output, "{what}")?;
    output.flush()
}

async fn accept<T: ServerTimers>(timers: T, listener: TcpListener) {
    loop {
        // Too many files, or a peer that is gone already: the next may be better.
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(talk(timers, stream));
    }
}

/// Serves one connection until the peer leaves or falls silent.
async fn talk<T: ServerTimers>(timers: T, stream: TcpStream) {
    // A server that answers in one packet gains nothing by waiting for more.
    let _ = stream.set_nodelay(true);
    let asked = Arc::new(AtomicU64::new(0));
    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        asked.fetch_add(1, Ordering::Relaxed);
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        respond(timers, delay(request.uri()))
    });
    let mut server = http1::Builder::new();
    timers.configure(&mut server);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    let mut silence = pin!(timers.sleep(SILENCE));
    let mut known = 0;
    poll_fn(|context| {
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let asked = asked.load(Ordering::Relaxed);
        if asked != known {
            known = asked;
            timers.reset(silence.as_mut(), SILENCE);
        }
        silence.as_mut().poll(context).map(drop)
    })
    .await;
}

/// How long the answer takes. `None`: it takes no time.
fn delay(uri: &Uri) -> Option<Duration> {
    Some(Duration::from_millis(uri.path().strip_prefix(DELAY)?.parse().ok()?))
}

/// What stands for the work that a request makes: a task that has to wait once.
async fn respond<T: ServerTimers>(
    timers: T,
    delay: Option<Duration>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = timers.timeout(ANSWER, async {
        match delay {
            Some(delay) => timers.nap(delay).await,
            None => tokio::task::yield_now().await,
        }
        Bytes::from_static(b"Hello, world!")
    });
    let mut response = Response::new(Full::new(Bytes::new()));
    match answer.await {
        Some(body) => *response.body_mut() = Full::new(body),
        None => *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
    }
    Ok(response)
}

#[test]
fn a_path_tells_how_long_its_answer_takes() {
    let of = |path: &str| delay(&path.parse().unwrap());
    assert_eq!(of("/delay/250"), Some(Duration::from_millis(250)));
    assert_eq!((of("/"), of("/delay/"), of("/delay/x"), of("/250")), (None, None, None, None));
}
