//! What somebody who asks is told of a payload that panicked.
//!
//! *Tested by*: `tests/panics.rs`, `tests/faults.rs`.

use std::any::Any;
use std::fmt;

use crate::sync::Arc;

/// What a payload panicked with, as [`Builder::on_panic`](crate::Builder::on_panic) is told.
///
/// ```
/// use tickless::{Engine, TaskPanic};
///
/// let report = |panic: &TaskPanic<'_>| {
///     eprintln!("shard {}: {}", panic.shard, panic.message().unwrap_or("no message"));
/// };
/// let engine = Engine::builder().on_panic(report).build()?;
/// # drop(engine);
/// # Ok::<(), tickless::BuildError>(())
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct TaskPanic<'a> {
    /// The shard whose reaper caught it.
    pub shard: usize,
    /// What was thrown.
    pub payload: &'a (dyn Any + Send),
}

/// Is told of panics.
pub type OnPanic = Arc<dyn Fn(&TaskPanic<'_>) + Send + Sync>;

// === impl TaskPanic ===

impl<'a> TaskPanic<'a> {
    /// What `panic!` was told to say; `None` where something else than a text was thrown.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let said = Arc::new(Mutex::new(None));
    /// let says = said.clone();
    /// let engine = Engine::builder()
    ///     .manual_clock(&ManualClock::new())
    ///     .on_panic(move |panic| *says.lock().unwrap() = panic.message().map(String::from))
    ///     .build()?;
    /// engine.schedule_detached(Duration::ZERO, || panic!("out of tea"))?;
    /// engine.advance(Duration::ZERO)?;
    /// assert_eq!(said.lock().unwrap().as_deref(), Some("out of tea"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn message(&self) -> Option<&'a str> {
        let text = self.payload.downcast_ref::<&'static str>().copied();
        text.or_else(|| self.payload.downcast_ref::<String>().map(String::as_str))
    }
}

impl fmt::Debug for TaskPanic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPanic")
            .field("shard", &self.shard)
            .field("message", &self.message())
            .finish_non_exhaustive()
    }
}
