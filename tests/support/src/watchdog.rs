//! Bodies that have to come to an end: one that hangs is a failure with a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::scaled;

/// A body that gives no sign of life for so long hangs. (What is done at length has longer steps.)
fn patience() -> Duration {
    Duration::from_secs(60 * scaled(1).min(8))
}

/// A body's signs of life.
#[derive(Clone, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// The body got a step further.
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `body` on a thread of its own, to its end. What the body owns is not touched if it hangs:
/// dropping an engine that hangs would hang as well.
pub fn watched<R: Send + 'static>(
    what: &str,
    body: impl FnOnce(&Pulse) -> R + Send + 'static,
) -> R {
    let pulse = Pulse::default();
    let (of_body, (done, is_done)) = (pulse.clone(), channel());
    let thread = thread::spawn(move || {
        let result = body(&of_body);
        let _ = done.send(());
        result
    });
    let (mut beats, patience) = (0, patience());
    while is_done.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
        let now = pulse.0.load(Ordering::Relaxed);
        assert!(now > beats, "{what}: nothing moves for {patience:?}, after {beats} steps");
        beats = now;
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
