//! Whose timers a server has.

use std::future::{Future, Pending, pending};
use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tickless::future::HyperTimer;

/// After so long without the whole head of a request a connection ends.
const HEAD: Duration = Duration::from_secs(10);
/// After so long without an answer a request ends.
const ANSWER: Duration = Duration::from_secs(30);
/// After so long without a request a connection ends.
pub(crate) const SILENCE: Duration = Duration::from_secs(75);

/// The timers of a server.
pub(crate) trait Timers: Copy + Send + Sync + 'static {
    /// Waits for [`SILENCE`].
    type Silence: Future<Output: Send> + Send;

    /// Has hyper use them.
    fn configure(self, server: &mut http1::Builder);

    /// Starts to wait for silence.
    fn silence(self) -> Self::Silence;

    /// Starts again.
    fn reset(self, silence: Pin<&mut Self::Silence>);

    /// What the future returns, if it does in time.
    fn limit<F: Future<Output: Send> + Send>(
        self,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send;

    /// How often a timer was started or moved.
    fn calls(self) -> Option<u64>;
}

/// This crate's, on its global engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tickless;

/// Those of the runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokio;

/// None: the floor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoTimers;

// === impl Timers ===

impl Timers for Tickless {
    type Silence = tickless::future::Sleep;

    fn configure(self, server: &mut http1::Builder) {
        server.timer(HyperTimer::global()).header_read_timeout(HEAD);
    }

    fn silence(self) -> Self::Silence {
        tickless::sleep(SILENCE)
    }

    fn reset(self, mut silence: Pin<&mut Self::Silence>) {
        silence.reset(Instant::now() + SILENCE);
    }

    async fn limit<F: Future<Output: Send> + Send>(self, future: F) -> Option<F::Output> {
        tickless::timeout(ANSWER, future).await.ok()
    }

    fn calls(self) -> Option<u64> {
        let stats = tickless::Engine::global().stats();
        Some(stats.scheduled + stats.reset)
    }
}

impl Timers for Tokio {
    type Silence = tokio::time::Sleep;

    fn configure(self, server: &mut http1::Builder) {
        server.timer(TokioTimer::new()).header_read_timeout(HEAD);
    }

    fn silence(self) -> Self::Silence {
        tokio::time::sleep(SILENCE)
    }

    fn reset(self, silence: Pin<&mut Self::Silence>) {
        silence.reset(tokio::time::Instant::now() + SILENCE);
    }

    async fn limit<F: Future<Output: Send> + Send>(self, future: F) -> Option<F::Output> {
        tokio::time::timeout(ANSWER, future).await.ok()
    }

    fn calls(self) -> Option<u64> {
        None
    }
}

impl Timers for NoTimers {
    type Silence = Pending<()>;

    fn configure(self, server: &mut http1::Builder) {
        server.header_read_timeout(None);
    }

    fn silence(self) -> Self::Silence {
        pending()
    }

    fn reset(self, _: Pin<&mut Self::Silence>) {}

    async fn limit<F: Future<Output: Send> + Send>(self, future: F) -> Option<F::Output> {
        Some(future.await)
    }

    fn calls(self) -> Option<u64> {
        None
    }
}
