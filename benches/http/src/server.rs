//! The server, a process of its own. It says its port on a line; then, for each line that it reads,
//! what it has used up and done so far; and it ends with its input.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io::{BufRead, Write, stdin, stdout};
use std::mem::MaybeUninit;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::timers::Timers;

/// Requests of connections that ended, and of those that did not.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Serves until the input ends.
pub(crate) fn serve<T: Timers>(timers: T, workers: usize) -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
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

async fn accept<T: Timers>(timers: T, listener: TcpListener) {
    loop {
        // Too many files, or a peer that is gone already: the next may be better.
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(talk(timers, stream));
    }
}

/// Serves one connection until the peer leaves or falls silent.
async fn talk<T: Timers>(timers: T, stream: TcpStream) {
    // A server that answers in one packet gains nothing by waiting for more.
    let _ = stream.set_nodelay(true);
    let asked = Arc::new(AtomicU64::new(0));
    let service = service_fn(|_| {
        asked.fetch_add(1, Ordering::Relaxed);
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        respond(timers)
    });
    let mut server = http1::Builder::new();
    timers.configure(&mut server);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    let mut silence = pin!(timers.silence());
    let mut known = 0;
    poll_fn(|context| {
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let asked = asked.load(Ordering::Relaxed);
        if asked != known {
            known = asked;
            timers.reset(silence.as_mut());
        }
        silence.as_mut().poll(context).map(drop)
    })
    .await;
}

/// What stands for the work that a request makes: a task that has to wait once.
async fn respond<T: Timers>(timers: T) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = timers.limit(async {
        tokio::task::yield_now().await;
        Bytes::from_static(b"Hello, world!")
    });
    let mut response = Response::new(Full::new(Bytes::new()));
    match answer.await {
        Some(body) => *response.body_mut() = Full::new(body),
        None => *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
    }
    Ok(response)
}

/// User and system time of the process.
fn cpu_ns() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage` that may be written.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    assert_eq!(status, 0, "getrusage knows its own process");
    // SAFETY: it was zeroed, which is a valid `rusage`, and then filled in.
    let usage = unsafe { usage.assume_init() };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
