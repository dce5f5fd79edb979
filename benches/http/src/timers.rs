//! Whose timers a server has.

use std::time::Duration;

use async_scale::{NoTimers, Tickless, Timers, Tokio};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tickless::future::HyperTimer;

/// After so long without the whole head of a request a connection ends.
const HEAD: Duration = Duration::from_secs(10);
/// After so long without an answer a request ends.
pub(crate) const ANSWER: Duration = Duration::from_secs(30);
/// After so long without a request a connection ends.
pub(crate) const SILENCE: Duration = Duration::from_secs(75);

/// The timers of a server.
pub(crate) trait ServerTimers: Timers {
    /// Has hyper use them.
    fn configure(self, server: &mut http1::Builder);
}

// === impl ServerTimers ===

impl ServerTimers for Tickless {
    fn configure(self, server: &mut http1::Builder) {
        server.timer(HyperTimer::global()).header_read_timeout(HEAD);
    }
}

impl ServerTimers for Tokio {
    fn configure(self, server: &mut http1::Builder) {
        server.timer(TokioTimer::new()).header_read_timeout(HEAD);
    }
}

impl ServerTimers for NoTimers {
    fn configure(self, server: &mut http1::Builder) {
        server.header_read_timeout(None);
    }
}
