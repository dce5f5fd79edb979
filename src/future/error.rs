//! The errors of sleeps, timeouts and intervals.

use std::error::Error;
use std::fmt;
use std::io;

/// Why an engine cannot tell when a deadline has passed.
///
/// Awaiting a [`Sleep`](super::Sleep) or a tick panics with it.
/// [`Sleep::poll_elapsed`](super::Sleep::poll_elapsed), [`Sleep::wait`](super::Sleep::wait) and
/// [`Interval::try_tick`](super::Interval::try_tick) return it, and a
/// [`Timeout`](super::Timeout) returns it as the [cause](Elapsed::cause) of its [`Elapsed`].
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::future::SleepError;
///
/// let engine = Engine::new()?;
/// let mut sleep = engine.sleep(Duration::from_secs(5));
/// engine.stop()?;
/// assert_eq!(pollster::block_on(sleep.wait()), Err(SleepError::Stopped));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SleepError {
    /// The engine has as many pending timers as its `max_pending` allows. Polling again retries.
    Full,
    /// The engine has stopped or was dropped.
    Stopped,
}

/// The error of a [`Timeout`](super::Timeout): the deadline came before the future was ready.
///
/// If the engine cannot time a timeout (because it is full or has stopped), the timeout ends with
/// this error at once, so that the future does not run without a limit. [`cause`](Elapsed::cause)
/// tells the two cases apart.
///
/// ```
/// use std::future::pending;
/// use std::io;
/// use std::time::Duration;
///
/// let answer = pollster::block_on(tickless::timeout(Duration::from_millis(3), pending::<()>()));
/// let error = answer.unwrap_err();
/// assert_eq!(error.cause(), None, "it was the deadline");
/// assert_eq!(error.to_string(), "the deadline has passed");
/// assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed {
    cause: Option<SleepError>,
}

// === impl SleepError ===

impl fmt::Display for SleepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SleepError::Full => "as many timers as allowed are pending",
            SleepError::Stopped => "the engine has stopped",
        })
    }
}

impl Error for SleepError {}

/// The kind is `Other`.
impl From<SleepError> for io::Error {
    fn from(error: SleepError) -> io::Error {
        io::Error::other(error)
    }
}

// === impl Elapsed ===

impl Elapsed {
    pub(super) const DEADLINE: Elapsed = Elapsed { cause: None };

    pub(super) fn because(cause: SleepError) -> Elapsed {
        Elapsed { cause: Some(cause) }
    }

    /// Returns `None` if the deadline has passed, or else why the engine could not time it.
    ///
    /// ```
    /// use std::future::pending;
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::future::SleepError;
    ///
    /// let engine = Engine::builder().max_pending(1).build()?;
    /// let _takes_the_room = engine.schedule(Duration::from_secs(60), || ())?;
    /// let answer = pollster::block_on(engine.timeout(Duration::from_secs(5), pending::<()>()));
    /// assert_eq!(answer.unwrap_err().cause(), Some(SleepError::Full));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cause(&self) -> Option<SleepError> {
        self.cause
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cause {
            None => "the deadline has passed",
            Some(_) => "the deadline could not be timed",
        })
    }
}

impl Error for Elapsed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as &(dyn Error + 'static))
    }
}

/// The kind is `TimedOut` if the deadline has passed, or else `Other`.
impl From<Elapsed> for io::Error {
    fn from(error: Elapsed) -> io::Error {
        match error.cause {
            None => io::Error::new(io::ErrorKind::TimedOut, error),
            Some(_) => io::Error::other(error),
        }
    }
}
