//! Why a wait was refused, or given up.

/// Why a call did not wait for the end of a task. The task was cancelled all the same, if it had
/// not begun and the call is one that cancels.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::wait::WaitError;
///
/// let (begin, begun) = std::sync::mpsc::channel();
/// let (release, released) = std::sync::mpsc::channel::<()>();
/// let engine = Engine::new()?;
/// let mut timer = engine.schedule_waitable(Duration::ZERO, move || {
///     let _ = begin.send(());
///     let _ = released.recv();
/// })?;
/// begun.recv()?;
/// let waited = timer.cancel_wait_within(Duration::from_millis(1));
/// assert_eq!(waited, Err(WaitError::TimedOut), "it still runs");
/// drop(release);
/// timer.cancel_wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitError {
    /// The caller is the task that it would wait for: it runs, and ends after this call.
    InsideTask,
    /// The wait is for [the end of something that repeats](crate::periodic::Periodic::ended), in a
    /// task of its engine, and its timer might never fire: see
    /// [`ScheduleReason::Circular`](crate::ScheduleReason::Circular).
    Circular,
    /// The time limit has passed, and the task is still running.
    TimedOut,
    /// The task was running in the parent process when this process was forked from it, so its end
    /// does not come here.
    Forked,
}

// === impl WaitError ===

display! { WaitError {
    InsideTask => "a task cannot wait for its own end",
    Circular => "no spare thread would fire the timer, since this is a task of the engine",
    TimedOut => "the task is still running",
    Forked => "the task runs in the parent process",
} }

impl std::error::Error for WaitError {}
