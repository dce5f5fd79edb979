//! One attempt of a retry, which may be answered later and elsewhere.
//!
//! *Invariants*
//! - There is at most one attempt of a retry at a time, and while there is, the retry waits for it
//!   and for nothing else.
//! - One answers it: the attempt or, where its time is limited, the timer of that limit. Whoever
//!   *claims* it does; an attempt without a limit has nobody to contend with.
//! - The place for the answer is that one's until the answer has *come* (`protocol/hold.rs`), and
//!   then the holder's. Where the retry is over it stays the former's, which takes the answer out
//!   again.

use std::fmt;

use crate::dispatch::Task;
use crate::engine::Handle;
use crate::sync::{Arc, AtomicBool, AtomicU32, Ordering, UnsafeCell};

use super::armed::Arms;

/// One attempt of a [`Retry`](super::Retry): to be answered, once, from any thread, now or later.
///
/// An attempt that is dropped unanswered has failed, without an error to tell.
///
/// ```
/// use std::sync::mpsc;
/// use std::thread;
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::{Attempt, Backoff, Outcome, Retry};
///
/// let engine = Engine::new()?;
/// // Attempts are made elsewhere.
/// let (requests, inbox) = mpsc::channel::<Attempt<u32, String>>();
/// thread::spawn(move || {
///     for attempt in inbox {
///         match attempt.number() {
///             1 => attempt.fail("refused".to_owned()),
///             2 => drop(attempt),
///             number => attempt.succeed(number),
///         }
///     }
/// });
/// let (sender, receiver) = mpsc::channel();
/// Retry::new(Backoff::new(Duration::from_millis(1))).start(
///     &engine,
///     move |attempt| drop(requests.send(attempt)),
///     move |outcome| drop(sender.send(outcome)),
/// )?;
/// assert_eq!(receiver.recv()?, Outcome::Succeeded { value: 3, attempts: 3 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an attempt that is dropped has failed"]
pub struct Attempt<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    /// There until it was answered.
    retry: Option<Arc<dyn Arms<Answers<T, E>>>>,
    number: u32,
    limit: Option<Limit>,
}

/// The timer that answers an attempt which takes too long.
struct Limit {
    claim: Arc<Claim>,
    handle: Handle,
}

/// Answers an attempt that takes too long: when it is dropped, which is what its timer does, and
/// what becomes of the timer where the engine ends.
struct Expiry<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    retry: Arc<dyn Arms<Answers<T, E>>>,
    claim: Arc<Claim>,
}

/// Whether an attempt has been answered, by whomever.
struct Claim(AtomicBool);

/// An answer.
pub(super) enum Answer<T, E> {
    Succeeded(T),
    Failed(Option<E>),
    /// Another attempt would be no better.
    Hopeless(E),
}

/// What a retry and its attempts share.
pub(super) struct Answers<T, E> {
    /// How many attempts have begun.
    pub(super) attempts: AtomicU32,
    answer: UnsafeCell<Option<Answer<T, E>>>,
}

// SAFETY: the cell is the one thing here that is not `Sync` by itself. Its content is `Send`, and
// passes from the attempt to the holder (see the file's invariants).
unsafe impl<T: Send, E: Send> Sync for Answers<T, E> {}

// === impl Attempt ===

impl<T: Send + 'static, E: Send + 'static> Attempt<T, E> {
    pub(super) fn new(retry: Arc<dyn Arms<Answers<T, E>>>, number: u32) -> Attempt<T, E> {
        Attempt { retry: Some(retry), number, limit: None }
    }

    /// One that has failed if it is not answered by `until_ns`. `None`: its timer found no room, so
    /// it has failed already.
    pub(super) fn limited(
        retry: Arc<dyn Arms<Answers<T, E>>>,
        number: u32,
        until_ns: u64,
    ) -> Option<Attempt<T, E>> {
        let claim = Arc::new(Claim(AtomicBool::new(false)));
        let expiry = Expiry { retry: retry.clone(), claim: claim.clone() };
        // The error has the task, which fails the attempt as it is dropped.
        let task = Task::new(move || drop(expiry));
        let handle = retry.engine().schedule_at_ns(until_ns, task).ok()?;
        Some(Attempt { retry: Some(retry), number, limit: Some(Limit { claim, handle }) })
    }

    /// Which attempt this is: the first is number 1.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Attempt, Backoff, Retry};
    /// # let engine = Engine::new()?;
    /// let attempt = |attempt: Attempt<u32, ()>| {
    ///     let number = attempt.number();
    ///     attempt.succeed(number);
    /// };
    /// Retry::new(Backoff::new(Duration::from_secs(1))).start(&engine, attempt, drop)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether nobody waits for the answer any more: it took too long, the retry was cancelled, or
    /// is over for some other reason. Whoever is still at it can stop.
    ///
    /// ```
    /// # use std::sync::mpsc;
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::{Attempt, Backoff, Retry};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let (sender, receiver) = mpsc::channel::<Attempt<(), ()>>();
    /// let retrying = Retry::new(Backoff::new(Duration::from_secs(1)))
    ///     .start(&engine, move |attempt| drop(sender.send(attempt)), drop)?;
    /// engine.advance(Duration::ZERO)?;
    /// let attempt = receiver.recv()?;
    /// assert!(!attempt.is_over());
    /// assert!(retrying.cancel());
    /// assert!(attempt.is_over());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_over(&self) -> bool {
        let is_too_late = self.limit.as_ref().is_some_and(|limit| limit.claim.is_made());
        is_too_late || self.retry.as_ref().is_none_or(|retry| retry.end().is_some())
    }

    /// It succeeded: that ends the retry. If this comes after `start`'s attempt closure has
    /// returned, its last closure is called here, on this thread; else where that closure runs,
    /// when it returns.
    ///
    /// # Panics
    /// With what the retry's last closure panics with, where that is called here.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Attempt, Backoff, Retry};
    /// # let engine = Engine::new()?;
    /// let attempt = |attempt: Attempt<&str, ()>| attempt.succeed("connected");
    /// let done = |outcome| println!("{outcome:?}");
    /// Retry::new(Backoff::new(Duration::from_secs(1))).start(&engine, attempt, done)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn succeed(mut self, value: T) {
        self.answer(Answer::Succeeded(value));
    }

    /// It failed: the next attempt comes after a pause, from now, if there is to be another; else
    /// that ends the retry as in [`succeed`](Attempt::succeed).
    ///
    /// # Panics
    /// With what the retry's last closure panics with, where that is called here.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Attempt, Backoff, Retry};
    /// # let engine = Engine::new()?;
    /// let attempt = |attempt: Attempt<(), &str>| attempt.fail("no route");
    /// let retry = Retry::new(Backoff::new(Duration::from_secs(1))).attempts(3);
    /// retry.start(&engine, attempt, |outcome| println!("{outcome:?}"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fail(mut self, error: E) {
        self.answer(Answer::Failed(Some(error)));
    }

    /// It failed for good: that ends the retry, though there could have been other attempts.
    ///
    /// # Panics
    /// With what the retry's last closure panics with, where that is called here.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Attempt, Backoff, Retry};
    /// # let engine = Engine::new()?;
    /// let attempt = |attempt: Attempt<(), &str>| attempt.give_up("wrong password");
    /// let done = |outcome| println!("{outcome:?}");
    /// Retry::new(Backoff::new(Duration::from_secs(1))).start(&engine, attempt, done)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_up(mut self, error: E) {
        self.answer(Answer::Hopeless(error));
    }

    fn answer(&mut self, answer: Answer<T, E>) {
        let Some(retry) = self.retry.take() else { return };
        if let Some(Limit { claim, handle }) = self.limit.take() {
            if !claim.make() {
                return;
            }
            handle.cancel();
        }
        // SAFETY: this is the attempt, and nobody else answers it.
        unsafe { bring(retry, answer) };
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for Attempt<T, E> {
    fn drop(&mut self) {
        self.answer(Answer::Failed(None));
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for Attempt<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("number", &self.number).finish_non_exhaustive()
    }
}

// === impl Expiry ===

impl<T: Send + 'static, E: Send + 'static> Drop for Expiry<T, E> {
    fn drop(&mut self) {
        if self.claim.make() {
            // SAFETY: it is claimed, so nobody else answers the attempt.
            unsafe { bring(self.retry.clone(), Answer::Failed(None)) };
        }
    }
}

/// Answers an attempt.
///
/// # Safety
/// The caller is the one who answers it, and does so once.
unsafe fn bring<T, E>(retry: Arc<dyn Arms<Answers<T, E>>>, answer: Answer<T, E>) {
    // SAFETY: the caller says so: the answer has not come yet.
    unsafe { retry.shared().put(answer) };
    if !retry.clone().come() {
        // SAFETY: as above, and it will never come. What is taken is dropped here.
        drop(unsafe { retry.shared().take() });
    }
}

// === impl Claim ===

impl Claim {
    /// `true`, for one caller.
    fn make(&self) -> bool {
        // ORDER: AcqRel - nothing is published by it; who comes second sees what the first did.
        !self.0.swap(true, Ordering::AcqRel)
    }

    fn is_made(&self) -> bool {
        // ORDER: Acquire - as in `make`.
        self.0.load(Ordering::Acquire)
    }
}

// === impl Answers ===

impl<T, E> Answers<T, E> {
    pub(super) fn new() -> Answers<T, E> {
        Answers { attempts: AtomicU32::new(0), answer: UnsafeCell::new(None) }
    }

    /// How many attempts have begun.
    pub(super) fn attempts(&self) -> u32 {
        // ORDER: Relaxed - a count for whoever asks; the holder wrote it.
        self.attempts.load(Ordering::Relaxed)
    }

    /// # Safety
    /// The caller is the one who answers, and has not come yet.
    unsafe fn put(&self, answer: Answer<T, E>) {
        // SAFETY: the caller says that nobody else looks into the cell.
        self.answer.with_mut(|cell| unsafe { *cell = Some(answer) });
    }

    /// # Safety
    /// The caller is the holder of a retry whose answer has come, or has one that never will.
    pub(super) unsafe fn take(&self) -> Option<Answer<T, E>> {
        // SAFETY: the caller says that nobody else looks into the cell.
        self.answer.with_mut(|cell| unsafe { (*cell).take() })
    }
}
