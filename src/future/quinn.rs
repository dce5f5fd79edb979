//! The runtime for quinn.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};

use crate::engine::Engine;
use crate::sync::Arc;

use super::{OnRefusal, PolicySleep};

/// A [runtime](quinn::Runtime) for quinn's endpoints whose clock and timers are an engine's, with
/// the sockets and the tasks of another runtime: quinn's for tokio or smol, or your own.
///
/// Each connection has one timer, which quinn moves with every packet or so: loss detection,
/// pacing, keep-alives, idle timeouts. The engine moves it and allocates nothing. The other runtime
/// needs no timers: a tokio runtime needs `enable_io` and not `enable_time`.
///
/// Clones are cheap and share the engine, which lives as long as one of them, and so as long as an
/// endpoint or connection that was made with it.
///
/// If the engine has stopped, quinn cannot be told. By default a timer then elapses at
/// once; quinn finds by the clock that nothing is due yet, and asks again. So connections continue
/// and end in time, but each keeps an executor busy until then. See [`OnRefusal`], and
/// [`on_refusal`](QuinnRuntime::on_refusal) for other ways. Let the engine outlive the endpoints.
///
/// The feature enables nothing of quinn: neither a runtime nor a back end for TLS.
///
/// ```no_run
/// use std::net::UdpSocket;
/// use std::sync::Arc;
/// use quinn::{Endpoint, EndpointConfig, TokioRuntime};
/// use tickless::Engine;
/// use tickless::future::QuinnRuntime;
///
/// # fn endpoint(config: EndpointConfig) -> Result<Endpoint, Box<dyn std::error::Error>> {
/// let engine = Engine::new()?;
/// let runtime = QuinnRuntime::new(&engine, Arc::new(TokioRuntime));
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// // Inside a tokio runtime:
/// let endpoint = Endpoint::new(config, None, socket, Arc::new(runtime))?;
/// # Ok(endpoint) }
/// ```
#[derive(Clone, Debug)]
pub struct QuinnRuntime {
    engine: Engine,
    inner: Arc<dyn Runtime>,
    policy: OnRefusal,
}

// === impl QuinnRuntime ===

impl QuinnRuntime {
    /// Returns a runtime with the timers of the [global engine](Engine::global) or, inside a tokio
    /// runtime, of what code that names no engine uses there in its place; and with the sockets and
    /// the tasks of `inner`.
    ///
    /// # Panics
    /// As [`Engine::global`] does, if this is its first use.
    #[track_caller]
    pub fn global(inner: Arc<dyn Runtime>) -> QuinnRuntime {
        QuinnRuntime::new(&Engine::of_place(), inner)
    }

    /// Returns a runtime with the timers and the clock of `engine`, and the sockets and the tasks
    /// of `inner`. With a [manual clock](crate::ManualClock), a test decides what time it is for
    /// quinn.
    pub fn new(engine: &Engine, inner: Arc<dyn Runtime>) -> QuinnRuntime {
        QuinnRuntime { engine: engine.clone(), inner, policy: OnRefusal::default() }
    }

    /// What quinn's timers do if the engine refuses them. Default: [`OnRefusal::Elapse`].
    ///
    /// With [`OnRefusal::Never`], a connection that hears nothing from its peer waits for ever.
    /// With [`OnRefusal::Panic`], the connection's task panics while it has quinn's lock, and so do
    /// calls of that connection from then on.
    pub fn on_refusal(mut self, policy: OnRefusal) -> QuinnRuntime {
        self.policy = policy;
        self
    }
}

impl Runtime for QuinnRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(self.engine.sleep_until(deadline).on_refusal(self.policy))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        self.inner.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.engine.now()
    }
}

impl AsyncTimer for PolicySleep {
    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        PolicySleep::reset(self.get_mut(), deadline);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, cx)
    }
}
