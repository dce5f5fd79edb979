//! What can go wrong.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What kind of failure a [`StoreError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// What is stored is damaged, or is not what this crate has written.
    Corrupt,
    /// Another version of this crate has written what is stored.
    Version,
    /// There is no room: the disk is full, or a limit on the file's size is reached.
    Full,
    /// The file or its directory does not permit it.
    Denied,
    /// Another process, or another store of this one, has the file open.
    InUse,
    /// Another instance has taken these timers over: this one may not write any more.
    Fenced,
    /// A key or a payload is larger than the store can keep.
    TooLarge,
    /// Any other failure of the file or the server.
    Io,
}

/// A failure of a store.
///
/// Clones share the cause: one failure is told to everybody whose timer was in the batch.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// Why something did not become durable.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The timer was cancelled before it was written, and never will be.
    Cancelled,
    /// Another timer with the same key took its place before it was written.
    Replaced,
    /// The store has failed. Whether this change survives is unknown until it is opened again.
    Store(StoreError),
    /// The service was stopped before.
    Stopped,
}

/// Why a timer was not scheduled. The payload is given back.
#[non_exhaustive]
pub struct ScheduleError<P> {
    /// The payload.
    pub payload: P,
    /// Why.
    pub reason: ScheduleReason,
}

/// The reason of a [`ScheduleError`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ScheduleReason {
    /// The service was stopped.
    Stopped,
    /// The store has failed, and the service with it.
    Store(StoreError),
    /// The payload could not be written as bytes.
    Payload(String),
    /// Too much waits to be written: the store is slower than its callers.
    Busy,
}

/// Why a service could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The store could not be read or written.
    Store(StoreError),
    /// A thread could not be started.
    Thread(io::Error),
    /// The engine could not be built.
    Engine(tickless::BuildError),
    /// The store was opened more often than there are numbers for: 2^23 times.
    TooManySessions,
}

/// Why a service could not be stopped, or how it ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum StopError {
    /// The call comes from the handler, or from a callback or a waker that the service calls, which
    /// would wait for itself; or it is by way of [`Firing::timers`](crate::Firing::timers), on any
    /// thread. The service goes on. An asynchronous handler that has another handle is not refused,
    /// and waits for itself.
    InHandler,
    /// The service has stopped. Its store had failed before, or with the last batch.
    Store(StoreError),
}

// === impl StoreError ===

impl StoreError {
    /// A failure without a further cause.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> StoreError {
        StoreError { kind, message: message.into(), source: None }
    }

    /// A failure that another error has caused.
    pub fn caused(
        kind: StoreErrorKind,
        message: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> StoreError {
        StoreError { kind, message: message.into(), source: Some(Arc::new(source)) }
    }

    /// The failure of a system call, with the kind that it means.
    pub fn io(message: impl Into<String>, source: io::Error) -> StoreError {
        StoreError::caused(kind_of(&source), message, source)
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

/// What a failed system call means for a store.
pub(crate) fn kind_of(error: &io::Error) -> StoreErrorKind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StoreErrorKind::Full
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreErrorKind::Denied
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy => StoreErrorKind::InUse,
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Io,
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

// === the others ===

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Cancelled => f.write_str("the timer was cancelled before it was written"),
            Error::Replaced => f.write_str("another timer with its key replaced the timer"),
            Error::Store(_) => f.write_str("the store has failed"),
            Error::Stopped => f.write_str("the timers were stopped"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for ScheduleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScheduleReason::Stopped => f.write_str("the timers were stopped"),
            ScheduleReason::Store(_) => f.write_str("the store has failed"),
            ScheduleReason::Payload(error) => write!(f, "the payload cannot be written: {error}"),
            ScheduleReason::Busy => f.write_str("too many timers wait to be written"),
        }
    }
}

impl<P> fmt::Debug for ScheduleError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<P> fmt::Display for ScheduleError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.reason, f)
    }
}

impl<P> StdError for ScheduleError<P> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.reason {
            ScheduleReason::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Store(_) => f.write_str("the store cannot be used"),
            OpenError::Thread(_) => f.write_str("a thread could not be started"),
            OpenError::Engine(_) => f.write_str("the engine could not be built"),
            OpenError::TooManySessions => f.write_str("the store was opened too often"),
        }
    }
}

impl StdError for OpenError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            OpenError::Store(error) => Some(error),
            OpenError::Thread(error) => Some(error),
            OpenError::Engine(error) => Some(error),
            OpenError::TooManySessions => None,
        }
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> OpenError {
        OpenError::Store(error)
    }
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopError::InHandler => f.write_str("a handler cannot wait for its own end"),
            StopError::Store(_) => f.write_str("the store has failed"),
        }
    }
}

impl StdError for StopError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            StopError::Store(error) => Some(error),
            StopError::InHandler => None,
        }
    }
}
