//! The trait of values that can be scheduled.

use super::Task;

/// A value that can be scheduled on an engine with payloads of type `T`: a `T` itself, and on an
/// [`Engine`](crate::Engine) of closures any closure.
///
/// `schedule` takes an `impl IntoPayload<T>`, so that one method serves both. Only functions that
/// pass a payload on need to name this trait:
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, Handle, IntoPayload, ScheduleError, Task};
///
/// fn in_a_minute(
///     engine: &Engine,
///     task: impl IntoPayload<Task>,
/// ) -> Result<Handle, ScheduleError<Task>> {
///     engine.schedule(Duration::from_secs(60), task)
/// }
///
/// let engine = Engine::new()?;
/// assert!(in_a_minute(&engine, || println!("a minute later"))?.cancel());
/// assert!(in_a_minute(&engine, Task::new(|| println!("a minute later")))?.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be scheduled on an `Engine<{T}>`",
    label = "this is neither a `{T}` nor a closure for an `Engine<Task>`",
    note = "an `Engine` of closures takes any `FnOnce() + Send + 'static` that returns `()`",
    note = "an `Engine<T>` takes a `T` itself, and converts nothing"
)]
pub trait IntoPayload<T> {
    /// Converts `self` to the payload.
    fn into_payload(self) -> T;
}

impl<T> IntoPayload<T> for T {
    #[inline(always)]
    fn into_payload(self) -> T {
        self
    }
}

impl<F: FnOnce() + Send + 'static> IntoPayload<Task> for F {
    #[inline(always)]
    fn into_payload(self) -> Task {
        Task::new(self)
    }
}
