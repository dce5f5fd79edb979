//! The errors of a pool.

use std::io;

use tickless_core::error::Refused;

use super::MAX_THREADS;

/// The error of [`PoolBuilder::build`](super::PoolBuilder::build): why a pool was not built.
///
/// ```
/// use tickless::dispatch::{Full, Pool, PoolError};
///
/// let built = Pool::builder(Full::Block).threads(0).build();
/// assert!(matches!(built, Err(PoolError::Threads { threads: 0 })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// The number of threads was zero or above
    /// [`PoolBuilder::MAX_THREADS`](super::PoolBuilder::MAX_THREADS).
    Threads {
        /// The number that was set.
        threads: usize,
    },
    /// The queue's bound was zero.
    QueueBound,
    /// The name of the threads contained a NUL.
    ThreadName {
        /// The name that was set.
        name: String,
    },
    /// A thread could not be started.
    Thread(io::Error),
}

/// The error of [`Pool::submit`](super::Pool::submit). It returns the payload.
///
/// ```
/// use tickless::dispatch::{Full, Pool, SubmitReason};
///
/// let pool = Pool::builder(Full::Drop).build_typed(|line: &str| println!("{line}"))?;
/// pool.submit("in time")?;
/// pool.shutdown()?;
/// let refused = pool.submit("too late").unwrap_err();
/// assert_eq!(refused.reason(), SubmitReason::ShutDown);
/// assert_eq!(refused.into_payload(), "too late");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SubmitError<T> = Refused<SubmitReason, T>;

/// Why a pool did not take a payload.
///
/// ```
/// use tickless::dispatch::{Full, Pool, SubmitReason};
///
/// let pool = Pool::builder(Full::Drop).build_typed(|line: &str| println!("{line}"))?;
/// match pool.submit("a line").map_err(|refused| refused.reason()) {
///     Ok(()) => {}
///     Err(SubmitReason::Full) => println!("later, perhaps"),
///     Err(reason) => println!("never: {reason}"),
/// }
/// # Ok::<(), tickless::dispatch::PoolError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SubmitReason {
    /// The queue is full, and the pool drops payloads that do not fit ([`Full::Drop`]).
    ///
    /// [`Full::Drop`]: super::Full::Drop
    Full,
    /// The pool has been shut down.
    ShutDown,
}

/// The error of [`Pool::shutdown`](super::Pool::shutdown): why a pool was not shut down.
///
/// ```
/// use std::sync::mpsc;
/// use tickless::Task;
/// use tickless::dispatch::{Full, Pool, ShutdownError};
///
/// let pool = Pool::builder(Full::Block).build()?;
/// let (itself, (answer, answered)) = (pool.clone(), mpsc::channel());
/// pool.submit(Task::new(move || answer.send(itself.shutdown()).unwrap())).unwrap();
/// assert_eq!(answered.recv()?, Err(ShutdownError::InsideTask));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The caller is one of the pool's own tasks, and would wait for itself.
    InsideTask,
}

// === impl PoolError ===

display! { PoolError {
    Threads { threads } => "threads must be between 1 and {MAX_THREADS}, got {threads}",
    QueueBound => "queue_bound must be above zero",
    ThreadName { name } => "a thread's name must be without NUL, got {name:?}",
    Thread(error) => "a worker could not be started: {error}",
} }

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PoolError::Thread(error) => Some(error),
            _ => None,
        }
    }
}

// === impl SubmitReason ===

impl std::error::Error for SubmitReason {}

display! { SubmitReason {
    Full => "the pool's queue is full",
    ShutDown => "the pool was shut down",
} }

// === impl ShutdownError ===

display! { ShutdownError {
    InsideTask => "a pool cannot be shut down by its own task",
} }

impl std::error::Error for ShutdownError {}
