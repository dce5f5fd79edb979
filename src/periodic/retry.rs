//! Attempts until one succeeds, with pauses in between: the retry and its outcome.

use std::time::Duration;

use crate::engine::{Engine, EngineRef};
use crate::time::saturating_ns;

use super::armed::Repeater;
use super::attempt::Answers;
use super::trying::Trying;
use super::{Attempt, Backoff, Outcome, Repeated, StartError};

/// Makes attempts, with a pause after each failure, until one succeeds or a limit is reached.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::{Backoff, Outcome, Retry};
///
/// let engine = Engine::new()?;
/// let (sender, receiver) = mpsc::channel();
/// let backoff = Backoff::new(Duration::from_millis(1)).max(Duration::from_millis(10));
/// Retry::new(backoff).attempts(5).within(Duration::from_secs(30)).run(
///     &engine,
///     |number| if number < 4 { Err("not yet") } else { Ok(number) },
///     move |outcome| drop(sender.send(outcome)),
/// )?;
/// assert_eq!(receiver.recv()?, Outcome::Succeeded { value: 4, attempts: 4 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a retry does nothing until it is started"]
pub struct Retry<P = Backoff> {
    pub(super) pauses: P,
    pub(super) most: u32,
    pub(super) within: Duration,
    pub(super) timeout: Option<Duration>,
}

/// The caller's handle of a retry that is under way.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::periodic::{Backoff, Retry, Retrying};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// let attempt = |_| Err::<(), _>("no route");
/// let retrying: Retrying = Retry::new(Backoff::new(second)).run(&engine, attempt, drop)?;
/// engine.advance(4 * second)?;
/// assert_eq!(retrying.attempts(), 3, "at 0, 1 and 3 seconds");
/// assert!(retrying.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Retrying = Repeated<Retry>;

// === impl Retry ===

impl<P> Retry<P>
where
    P: IntoIterator<Item = Duration, IntoIter: Send + 'static>,
{
    /// A retry with these pauses between its attempts: a [`Backoff`], or any iterator over
    /// durations, such as an array or the backoff of another crate. When the iterator ends, the
    /// attempt before was the last. Default: no other limit.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::periodic::{Backoff, Jitter, Retry};
    /// let backoff = Backoff::new(Duration::from_millis(100)).jitter(Jitter::Full);
    /// let retry = Retry::new(backoff).attempts(8);
    ///
    /// // Four attempts, with these pauses.
    /// let retry = Retry::new([1, 5, 30].map(Duration::from_secs));
    /// ```
    pub fn new(pauses: P) -> Retry<P> {
        Retry { pauses, most: u32::MAX, within: Duration::MAX, timeout: None }
    }

    /// The maximum number of attempts, including the first. Default: no limit. Zero counts as 1.
    pub fn attempts(mut self, most: u32) -> Retry<P> {
        self.most = most.max(1);
        self
    }

    /// The time within which attempts begin. Default: no limit. If the next attempt would begin
    /// later, the retry gives up at once and does not wait for the limit. An attempt that is under
    /// way is not interrupted; see [`attempt_timeout`](Retry::attempt_timeout).
    pub fn within(mut self, limit: Duration) -> Retry<P> {
        self.within = limit;
        self
    }

    /// The time that an attempt of [`start`](Retry::start) or of [`run_async`](Retry::run_async)
    /// may take. After that it has failed, without an error, and a later answer is ignored.
    /// Default: no limit, so an attempt that is neither answered nor dropped is awaited for as long
    /// as the retry lasts. Those of [`run`](Retry::run) are over when they return, and not limited.
    ///
    /// Costs a timer per attempt.
    ///
    /// ```
    /// # use std::sync::mpsc;
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::{Attempt, Backoff, Retry};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let second = Duration::from_secs(1);
    /// let retry = Retry::new(Backoff::new(second)).attempt_timeout(10 * second);
    /// let (sender, requests) = mpsc::channel::<Attempt<(), ()>>();
    /// let unanswered = move |attempt| drop(sender.send(attempt));
    /// let retrying = retry.start(&engine, unanswered, drop)?;
    /// engine.advance(30 * second)?;
    /// assert_eq!(retrying.attempts(), 3, "at 0, 11 and 23 seconds");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attempt_timeout(mut self, limit: Duration) -> Retry<P> {
        self.timeout = Some(limit);
        self
    }

    /// Starts a retry whose attempts are over when `attempt` returns. `attempt` gets the attempt's
    /// number, starting with 1, and returns a success or an error. `done` gets the outcome, once.
    ///
    /// Attempts are made where the engine's tasks run, the first at once; they never overlap. An
    /// attempt that panics has failed, and what runs the engine's tasks counts the panic. `done`
    /// runs where the engine's tasks run, with these exceptions: after a
    /// [`cancel`](Retrying::cancel), on the thread that cancels; if the engine is stopped or its
    /// last clone is dropped, on that thread; and if the engine's handler drops the task, where it
    /// does.
    ///
    /// One allocation, whatever the closures capture; attempts do not allocate. O(1).
    ///
    /// # Errors
    /// The engine is full or has stopped. The error returns both closures.
    pub fn run<T, E, A, D>(
        mut self,
        engine: &Engine,
        attempt: A,
        done: D,
    ) -> Result<Retrying, StartError<(A, D)>>
    where
        T: Send + 'static,
        E: Send + 'static,
        A: FnMut(u32) -> Result<T, E> + Send + 'static,
        D: FnOnce(Outcome<T, E>) + Send + 'static,
    {
        self.timeout = None;
        let make = |attempt: &mut A, this: Attempt<T, E>| match attempt(this.number()) {
            Ok(value) => this.succeed(value),
            Err(error) => this.fail(error),
        };
        self.start_attempts(engine, attempt, make, done)
    }

    /// Like [`run`](Retry::run), for attempts that end later: `attempt` starts one, and its
    /// [`Attempt`] is answered at any time, from any thread. Until then no other attempt is made.
    ///
    /// `done` may also run on the thread that answers.
    ///
    /// # Errors
    /// As [`run`](Retry::run).
    ///
    /// ```
    /// # use std::thread;
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Attempt, Backoff, Retry};
    /// # let engine = Engine::new()?;
    /// # fn connect() -> Result<(), std::io::Error> { Ok(()) }
    /// let in_background = |attempt: Attempt<(), std::io::Error>| {
    ///     thread::spawn(move || match connect() {
    ///         Ok(connection) => attempt.succeed(connection),
    ///         Err(error) => attempt.fail(error),
    ///     });
    /// };
    /// let done = |outcome| println!("{outcome:?}");
    /// Retry::new(Backoff::new(Duration::from_secs(1))).start(&engine, in_background, done)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start<T, E, A, D>(
        self,
        engine: &Engine,
        attempt: A,
        done: D,
    ) -> Result<Retrying, StartError<(A, D)>>
    where
        T: Send + 'static,
        E: Send + 'static,
        A: FnMut(Attempt<T, E>) + Send + 'static,
        D: FnOnce(Outcome<T, E>) + Send + 'static,
    {
        self.start_attempts(engine, attempt, |attempt, this| attempt(this), done)
    }

    fn start_attempts<T, E, A, D>(
        self,
        engine: &Engine,
        attempt: A,
        make: fn(&mut A, Attempt<T, E>),
        done: D,
    ) -> Result<Retrying, StartError<(A, D)>>
    where
        T: Send + 'static,
        E: Send + 'static,
        A: Send + 'static,
        D: FnOnce(Outcome<T, E>) + Send + 'static,
    {
        let now_ns = engine.clock().now_ns();
        let body = Trying {
            attempt,
            make,
            done,
            pauses: self.pauses.into_iter(),
            most: self.most,
            until_ns: now_ns.saturating_add(saturating_ns(self.within)),
            timeout_ns: self.timeout.map(saturating_ns),
            is_asking: false,
            outcome: None,
        };
        let (id, answers) = (EngineRef::new(engine), Answers::new());
        let armed = Repeater::start(engine, id, now_ns, body, answers, |_| ());
        let armed = armed.map_err(|refused| refused.map(|body| (body.attempt, body.done)))?;
        Ok(Retrying::new(armed))
    }
}

// === impl Retrying ===

impl Retrying {
    /// How many attempts have begun.
    pub fn attempts(&self) -> u32 {
        self.armed.core().tally() as u32
    }
}
