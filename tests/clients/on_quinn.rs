//! Quinn's endpoints on the engine's timers, over sockets of the loopback.
//!
//! The runtimes of tokio here have no timers: all that comes in time comes from the engine.

use std::fmt::{self, Debug};
use std::net::{Ipv4Addr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{join, poll_fn, select, try_join};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Runtime, ServerConfig,
    SmolRuntime, TokioRuntime, TransportConfig,
};
use rustls::RootCertStore;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tickless::future::{OnRefusal, QuinnRuntime};
use tickless::{Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

/// A silence that is waited for.
const SHORT: Duration = Duration::from_millis(100);

/// Longer than any machine makes a connection silent.
const LONG: Duration = Duration::from_secs(3600);

/// Bytes in many packets, and in one.
const MUCH: usize = 300_000;
const LITTLE: usize = 100;

/// A step that failed, why, and what was known then.
struct Failure(String);

/// As it is, for a test that unwraps it.
impl Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A server and a client, whose connections end when they were silent for `idle`.
fn endpoints(runtime: &QuinnRuntime, idle: Duration) -> (Endpoint, Endpoint) {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(idle.try_into().unwrap()));
    // No silence is too long that is shorter than a few of these.
    transport.initial_rtt(MS * 10);
    let transport = Arc::new(transport);

    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let certificate = own.cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let mut for_client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    for_client.transport_config(transport.clone());
    let mut for_server = ServerConfig::with_single_cert(vec![certificate], key.into()).unwrap();
    for_server.transport_config(transport);

    let endpoint = |server: Option<ServerConfig>| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let runtime: Arc<dyn Runtime> = Arc::new(runtime.clone());
        Endpoint::new(EndpointConfig::default(), server, socket, runtime).unwrap()
    };
    let (server, mut client) = (endpoint(Some(for_server)), endpoint(None));
    client.set_default_client_config(for_client);
    (server, client)
}

/// What happens on a connection first: `server` and `client` connect, and the client says something
/// of so many bytes, which the server says again. Much of it is paced by timers. Returns the
/// server's end and the client's. The error says what is known when a step fails.
async fn conversation(
    engine: &Engine,
    idle: Duration,
    server: &Endpoint,
    client: &Endpoint,
    bytes: usize,
) -> Result<(Connection, Connection), Failure> {
    let begin = Instant::now();
    let known = |Failure(failure)| {
        let (elapsed, overdue) = (begin.elapsed(), engine.overdue());
        let (stats, pending) = (engine.stats(), engine.snapshot());
        let limit = format!("after {elapsed:?}, and {idle:?} without a packet are the limit");
        Failure(format!("{failure}\n{limit}\n{overdue:?}\n\n{stats}\n{pending}"))
    };
    let (from, to) = connected(server, client).await.map_err(known)?;
    exchange(&from, &to, bytes).await.map_err(|Failure(failure)| {
        let [from, to] = [&from, &to].map(|end| (end.close_reason(), end.stats().path));
        known(Failure(format!("{failure}\nserver: {from:?}\nclient: {to:?}")))
    })?;
    Ok((from, to))
}

/// Connects them: the server's end and the client's.
async fn connected(
    server: &Endpoint,
    client: &Endpoint,
) -> Result<(Connection, Connection), Failure> {
    let address = server.local_addr().unwrap();
    let accept = async { server.accept().await.unwrap().await.map_err(failed("accept")) };
    let connect =
        async { client.connect(address, "localhost").unwrap().await.map_err(failed("connect")) };
    try_join(accept, connect).await
}

/// The client says something, which the server says again.
async fn exchange(server: &Connection, client: &Connection, bytes: usize) -> Result<(), Failure> {
    let said = vec![7; bytes];
    let echo = async {
        let (mut sends, mut receives) =
            server.accept_bi().await.map_err(failed("accept a stream"))?;
        let heard = receives.read_to_end(said.len()).await.map_err(failed("hear"))?;
        sends.write_all(&heard).await.map_err(failed("say again"))?;
        sends.finish().map_err(failed("say again to the end"))
    };
    let ask = async {
        let (mut sends, mut receives) = client.open_bi().await.map_err(failed("open a stream"))?;
        sends.write_all(&said).await.map_err(failed("say"))?;
        sends.finish().map_err(failed("say to the end"))?;
        receives.read_to_end(said.len()).await.map_err(failed("hear again"))
    };
    let ((), heard) = try_join(echo, ask).await?;
    assert!(heard == said);
    Ok(())
}

/// Names the step that failed.
fn failed<E: Debug>(step: &str) -> impl FnOnce(E) -> Failure {
    move |error| Failure(format!("cannot {step}: {error:?}"))
}

/// Waits until both ends are timed out. The one that is later may hear from the other that it is
/// too late.
async fn time_out(from: &Connection, to: &Connection) {
    let ends = join(from.closed(), to.closed()).await;
    assert!(
        matches!(
            ends,
            (ConnectionError::TimedOut, ConnectionError::TimedOut | ConnectionError::Reset)
                | (ConnectionError::Reset, ConnectionError::TimedOut)
        ),
        "{ends:?}"
    );
}

/// Runs `body` on tokio, without tokio's own timers.
fn on_tokio(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(body);
}

/// Closes both ends, and waits until their connections are gone. (Quinn tells the other end of a
/// close once. Whether that hears of it depends on the time that it has to look.)
async fn close(ends: (Connection, Connection), endpoints: (Endpoint, Endpoint)) {
    let (from, to) = ends;
    [from, to].into_iter().for_each(|end| end.close(0_u8.into(), b"done"));
    // Each waits for a timer: a connection lingers after its close.
    join(endpoints.0.wait_idle(), endpoints.1.wait_idle()).await;
}

/// Connects, exchanges, closes, and leaves no timer.
async fn whole_life(engine: &Engine, inner: Arc<dyn Runtime>) {
    let (server, client) = endpoints(&QuinnRuntime::new(engine, inner), LONG);
    let ends = conversation(engine, LONG, &server, &client, MUCH).await.unwrap();
    while engine.is_empty() {
        // When all is said, a connection waits for the end of the longest silence.
        tokio::task::yield_now().await;
    }
    close(ends, (server, client)).await;
    while !engine.is_empty() {
        // The connections' tasks end.
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_connection_is_made_used_and_closed_on_tokio() {
    let engine = Engine::new().unwrap();
    on_tokio(whole_life(&engine, Arc::new(TokioRuntime)));
}

#[test]
fn a_connection_is_made_used_and_closed_on_smol() {
    let engine = Engine::new().unwrap();
    smol::block_on(whole_life(&engine, Arc::new(SmolRuntime)));
}

/// Connects to a socket that nobody reads, until that was silent for too long.
async fn be_silent(runtime: &QuinnRuntime) {
    let (_server, client) = endpoints(runtime, SHORT);
    let nobody = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let begin = Instant::now();
    let connecting = client.connect(nobody.local_addr().unwrap(), "localhost").unwrap();
    let error = connecting.await.unwrap_err();
    assert!(matches!(error, ConnectionError::TimedOut), "{error:?}");
    assert!(begin.elapsed() >= SHORT);
}

#[test]
fn a_connection_that_is_silent_for_too_long_is_timed_out() {
    let engine = Engine::new().unwrap();
    on_tokio(be_silent(&QuinnRuntime::new(&engine, Arc::new(TokioRuntime))));
}

#[test]
fn a_test_says_what_time_it_is_for_quinn() {
    on_tokio(async {
        let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
        let runtime = QuinnRuntime::new(&engine, Arc::new(TokioRuntime));
        assert_eq!(runtime.now(), engine.now());
        let (server, client) = endpoints(&runtime, LONG);
        let (from, to) = conversation(&engine, LONG, &server, &client, LITTLE).await.unwrap();
        assert_eq!((from.close_reason(), to.close_reason()), (None, None));
        // A packet that is under way when the time changes begins the silence anew.
        let silence = async {
            loop {
                engine.advance(LONG * 2).unwrap();
                tokio::task::yield_now().await;
            }
        };
        select(pin!(time_out(&from, &to)), pin!(silence)).await;
    });
}

#[test]
fn without_an_engine_connections_continue_and_end_in_time() {
    on_tokio(async {
        let engine = Engine::new().unwrap();
        engine.stop().unwrap();
        let runtime = QuinnRuntime::new(&engine, Arc::new(TokioRuntime));
        let (server, client) = endpoints(&runtime, LONG);
        let ends = conversation(&engine, LONG, &server, &client, MUCH).await.unwrap();
        assert_eq!((ends.0.close_reason(), ends.1.close_reason()), (None, None));
        close(ends, (server, client)).await;
        be_silent(&runtime).await;
        assert_eq!(engine.stats().scheduled, 0);
    });
}

#[test]
fn or_they_continue_without_limits() {
    on_tokio(async {
        let engine = Engine::new().unwrap();
        engine.stop().unwrap();
        let runtime = QuinnRuntime::new(&engine, Arc::new(TokioRuntime));
        let runtime = runtime.on_refusal(OnRefusal::Never);
        let (server, client) = endpoints(&runtime, LONG);
        let (from, to) = conversation(&engine, LONG, &server, &client, LITTLE).await.unwrap();
        assert_eq!((from.close_reason(), to.close_reason()), (None, None));
    });
}

#[test]
fn or_its_timers_panic() {
    let engine = Engine::new().unwrap();
    engine.stop().unwrap();
    let runtime = QuinnRuntime::new(&engine, Arc::new(TokioRuntime)).on_refusal(OnRefusal::Panic);
    let mut timer = runtime.new_timer(engine.now() + MS * 1000);
    let mut poll_once = || poll_fn(|cx| timer.as_mut().poll(cx)).now_or_never();
    assert!(catch_unwind(AssertUnwindSafe(&mut poll_once)).is_err());
    timer.as_mut().reset(engine.now());
    assert_eq!(poll_fn(|cx| timer.as_mut().poll(cx)).now_or_never(), Some(()), "it is that late");
}
