//! The description of a payload's panic that a callback gets.
//!
//! *Tested by*: `tests/races/engine/panics.rs`, `tests/races/engine/faults.rs`.

use std::any::Any;

use crate::sync::Arc;

/// The panic of a payload, as passed to the callback of
/// [`Builder::on_panic`](crate::Builder::on_panic).
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
    /// The value of the panic, as [`std::panic::catch_unwind`] returns it.
    pub payload: &'a (dyn Any + Send),
}

/// A callback for panics.
pub type OnPanic = Arc<dyn Fn(&TaskPanic<'_>) + Send + Sync>;

// === impl TaskPanic ===

impl<'a> TaskPanic<'a> {
    /// The message of the panic, or `None` if its value is not a string.
    pub fn message(&self) -> Option<&'a str> {
        let text = self.payload.downcast_ref::<&'static str>().copied();
        text.or_else(|| self.payload.downcast_ref::<String>().map(String::as_str))
    }
}

debug! { impl[] TaskPanic['_] { shard = |this| this.shard, message = |this| this.message() } }
