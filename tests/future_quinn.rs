//! Quinn's endpoints on the engine's timers, over sockets of the loopback.
//!
//! The runtimes of tokio here have no timers: all that comes in time comes from the engine.

#![cfg(feature = "quinn")]

use std::net::{Ipv4Addr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{join, poll_fn};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Runtime, ServerConfig,
    SmolRuntime, TokioRuntime, TransportConfig,
};
use rustls::RootCertStore;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tickless::future::{OnRefusal, QuinnRuntime};
use tickless::{Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

/// Longer than a busy machine mostly lets the tests wait for a processor; and what is tried if it
/// did not.
const IDLE: [Duration; 3] = [MS.saturating_mul(600), MS.saturating_mul(3_000), LONG];

/// Longer than that in any case.
const LONG: Duration = Duration::from_secs(30);

/// Bytes in many packets, and in one.
const MUCH: usize = 300_000;
const LITTLE: usize = 100;

/// A server and a client, whose connections end when they were silent for `idle`.
fn endpoints(runtime: &QuinnRuntime, idle: Duration) -> (Endpoint, Endpoint) {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(idle.try_into().unwrap()));
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

/// Connects them: the server's end and the client's. `None`: it took too long.
async fn connected(server: &Endpoint, client: &Endpoint) -> Option<(Connection, Connection)> {
    let address = server.local_addr().unwrap();
    let accepted = async { server.accept().await.unwrap().await };
    let connected = async { client.connect(address, "localhost").unwrap().await };
    let (accepted, connected) = join(accepted, connected).await;
    Some((accepted.ok()?, connected.ok()?))
}

/// The client says something, which the server says again. Much of it is paced by timers.
/// `None`: it took too long.
async fn exchange(server: &Connection, client: &Connection, bytes: usize) -> Option<()> {
    let said = vec![7; bytes];
    let echo = async {
        let (mut sends, mut receives) = server.accept_bi().await.ok()?;
        let heard = receives.read_to_end(said.len()).await.ok()?;
        sends.write_all(&heard).await.ok()?;
        sends.finish().ok()
    };
    let ask = async {
        let (mut sends, mut receives) = client.open_bi().await.ok()?;
        sends.write_all(&said).await.ok()?;
        sends.finish().ok()?;
        receives.read_to_end(said.len()).await.ok()
    };
    let (echoed, heard) = join(echo, ask).await;
    echoed?;
    assert!(heard? == said);
    Some(())
}

/// Tries `life` with longer and longer limits for silence, until nothing is silent for too long
/// before it is meant to be.
async fn in_time<F: Future<Output = Option<()>>>(life: impl Fn(Duration) -> F) {
    for idle in IDLE {
        if life(idle).await.is_some() {
            return;
        }
    }
    panic!("nothing is exchanged within {LONG:?}");
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

/// Connects, exchanges, closes in order, and leaves no timer.
async fn whole_life(engine: &Engine, inner: Arc<dyn Runtime>) {
    let (server, client) = endpoints(&QuinnRuntime::new(engine, inner), LONG);
    let (from, to) = connected(&server, &client).await.unwrap();
    exchange(&from, &to, MUCH).await.unwrap();
    to.close(0_u8.into(), b"done");
    assert!(matches!(from.closed().await, ConnectionError::ApplicationClosed(_)));
    drop((from, to));
    // Each waits for a timer: a connection lingers after its close.
    join(server.wait_idle(), client.wait_idle()).await;
    assert!(engine.stats().fired > 0);
    drop((server, client));
    while !engine.is_empty() {
        // The connections' tasks end.
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_connection_is_made_used_and_closed_on_tokio() {
    on_tokio(whole_life(&Engine::new().unwrap(), Arc::new(TokioRuntime)));
}

#[test]
fn a_connection_is_made_used_and_closed_on_smol() {
    smol::block_on(whole_life(&Engine::new().unwrap(), Arc::new(SmolRuntime)));
}

#[test]
fn a_connection_that_is_silent_for_too_long_is_timed_out() {
    on_tokio(in_time(|idle| async move {
        let engine = Engine::new().unwrap();
        let runtime = QuinnRuntime::new(&engine, Arc::new(TokioRuntime));
        let (server, client) = endpoints(&runtime, idle);
        let begin = Instant::now();
        let (from, to) = connected(&server, &client).await?;
        exchange(&from, &to, LITTLE).await?;
        time_out(&from, &to).await;
        assert!(begin.elapsed() >= idle);
        Some(())
    }));
}

#[test]
fn a_test_says_what_time_it_is_for_quinn() {
    on_tokio(async {
        let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
        let runtime = QuinnRuntime::new(&engine, Arc::new(TokioRuntime));
        assert_eq!(runtime.now(), engine.now());
        let (server, client) = endpoints(&runtime, LONG);
        let (from, to) = connected(&server, &client).await.unwrap();
        exchange(&from, &to, LITTLE).await.unwrap();
        assert_eq!((from.close_reason(), to.close_reason()), (None, None));
        engine.advance(LONG * 2).unwrap();
        time_out(&from, &to).await;
    });
}

#[test]
fn without_an_engine_connections_continue_and_end_in_time() {
    on_tokio(in_time(|idle| async move {
        let engine = Engine::new().unwrap();
        engine.stop().unwrap();
        let runtime = QuinnRuntime::new(&engine, Arc::new(TokioRuntime));
        let (server, client) = endpoints(&runtime, idle);
        let (from, to) = connected(&server, &client).await?;
        exchange(&from, &to, MUCH).await?;
        time_out(&from, &to).await;
        join(server.wait_idle(), client.wait_idle()).await;
        assert_eq!(engine.stats().scheduled, 0);
        Some(())
    }));
}

#[test]
fn or_they_continue_without_limits() {
    on_tokio(async {
        let engine = Engine::new().unwrap();
        engine.stop().unwrap();
        let runtime = QuinnRuntime::new(&engine, Arc::new(TokioRuntime));
        let runtime = runtime.on_refusal(OnRefusal::Never);
        let (server, client) = endpoints(&runtime, IDLE[0]);
        let (from, to) = connected(&server, &client).await.unwrap();
        exchange(&from, &to, LITTLE).await.unwrap();
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
