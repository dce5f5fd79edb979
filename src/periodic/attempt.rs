//! One attempt of a retry, which may be answered later and elsewhere.
//!
//! *Invariants*
//! - A retry has at most one attempt at a time. While it has one, it waits for the answer and for
//!   nothing else.
//! - Exactly one side answers: the attempt or, if its time is limited, the timer of that limit. The
//!   first to *claim* the answer wins.
//! - The cell for the answer belongs to the side that answers until the answer has *come*
//!   (`crates/sync/src/protocol/hold.rs`), and then to the holder, or to the thread that finishes
//!   the retry. If the answer came after the end of the retry, the side that answers keeps the
//!   cell, and takes its answer out again.

use crate::dispatch::{Kind, Runs, Task};
use crate::engine::{EngineRef, Handle};
use crate::sync::{Arc, AtomicU32, Ordering, UnsafeCell};

use super::armed::{Arms, Repeating};

/// The retry that an attempt belongs to.
type SharedRetry<T, E> = Arc<dyn Arms<Answers<T, E>>>;

/// One attempt of a [`Retry`](super::Retry). It is answered once, from any thread, now or later.
///
/// An attempt that is dropped without an answer has failed, without an error.
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
pub struct Attempt<T, E> {
    /// `Some` until the attempt is answered.
    retry: Option<SharedRetry<T, E>>,
    number: u32,
    /// The timer that fails the attempt if it takes too long.
    limit: Option<Handle>,
}

/// Fails an attempt that takes too long. It fails it when it is dropped: the timer's task drops it,
/// and so does an engine that ends.
struct Expiry<T, E> {
    retry: SharedRetry<T, E>,
    number: u32,
    /// The time has come. What the failure leads to calls functions of the user's, where the
    /// engine's tasks run.
    is_due: bool,
}

/// An answer.
pub(super) enum Answer<T, E> {
    Succeeded(T),
    Failed(Option<E>),
    /// Another attempt would be no better.
    Hopeless(E),
}

/// The place for an answer, which a retry and its attempts share.
pub(super) struct Answers<T, E> {
    cell: UnsafeCell<Option<Answer<T, E>>>,
    /// The number of the last attempt whose answer was claimed.
    claimed: AtomicU32,
}

// SAFETY: only the cell is not `Sync` by itself. Its content is `Send`, and passes from the attempt
// to the holder (see the file's invariants).
unsafe impl<T: Send, E: Send> Sync for Answers<T, E> {}

// === impl Attempt ===

impl<T, E> Attempt<T, E> {
    /// An attempt that fails unless it is answered by `until_ns`, if that is given. `None`: the
    /// engine has stopped, and it has failed already.
    pub(super) fn new(
        engine: EngineRef,
        retry: SharedRetry<T, E>,
        number: u32,
        until_ns: Option<u64>,
    ) -> Option<Attempt<T, E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let Some(until_ns) = until_ns else {
            return Some(Attempt { retry: Some(retry), number, limit: None });
        };
        let expiry = Expiry { retry: retry.clone(), number, is_due: false };
        // On an error, the task is dropped with the error, and that fails the attempt.
        let handle = engine.schedule_at_ns(until_ns, Task::of(expiry), false).ok()?;
        Some(Attempt { retry: Some(retry), number, limit: Some(handle) })
    }

    /// The number of this attempt; the first is 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether the answer is no longer awaited: the attempt took too long, the retry was cancelled,
    /// or it is over for another reason. Work on the attempt can stop then.
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
        self.retry.as_ref().is_none_or(|retry| {
            retry.shared().is_claimed(self.number) || retry.core().word.end().is_some()
        })
    }

    /// Reports success, which ends the retry. If this is called after `start`'s attempt closure has
    /// returned, the retry's last closure (`done`) is called here, on this thread. Otherwise `done`
    /// is called on the thread that runs the attempt closure, when that returns.
    ///
    /// # Panics
    /// Propagates a panic of `done`, of the pauses, or of dropping a closure, if that happens here.
    pub fn succeed(mut self, value: T) {
        self.answer(Answer::Succeeded(value));
    }

    /// Reports a failure. The next attempt starts after a pause, if the limits allow another. The
    /// pause counts from now or, if the attempt closure has not returned yet, from its return.
    /// Otherwise the retry ends, as in [`succeed`](Attempt::succeed).
    ///
    /// # Panics
    /// Propagates a panic of `done`, of the pauses, or of dropping a closure, if that happens here.
    pub fn fail(mut self, error: E) {
        self.answer(Answer::Failed(Some(error)));
    }

    /// Reports a permanent failure, which ends the retry even if further attempts were allowed.
    ///
    /// # Panics
    /// Propagates a panic of `done`, of the pauses, or of dropping a closure, if that happens here.
    pub fn give_up(mut self, error: E) {
        self.answer(Answer::Hopeless(error));
    }

    fn answer(&mut self, answer: Answer<T, E>) {
        let Some(retry) = self.retry.take() else { return };
        if !retry.shared().claim(self.number) {
            return;
        }
        if let Some(handle) = self.limit.take() {
            handle.cancel();
        }
        // SAFETY: this side has the claim, so nothing else answers the attempt.
        unsafe { bring(retry, answer, Repeating::come) };
    }
}

impl<T, E> Drop for Attempt<T, E> {
    fn drop(&mut self) {
        self.answer(Answer::Failed(None));
    }
}

unwind_safe! { impl[T, E] Attempt[T, E] }

debug! { impl[T, E] Attempt[T, E] { number = |this| this.number } }

// === impl Expiry ===

impl<T: Send + 'static, E: Send + 'static> Runs for Expiry<T, E> {
    const KIND: Kind = Kind::Own;

    fn run(mut self) {
        self.is_due = true;
    }
}

impl<T, E> Drop for Expiry<T, E> {
    fn drop(&mut self) {
        if self.retry.shared().claim(self.number) {
            let retry = self.retry.clone();
            let come = if self.is_due { Repeating::come_where_tasks_run } else { Repeating::come };
            // SAFETY: this side has the claim, so nothing else answers the attempt.
            unsafe { bring(retry, Answer::Failed(None), come) };
        }
    }
}

/// Brings the answer of an attempt to its retry.
///
/// # Safety
/// The caller is the side that answers the attempt, and calls this once.
unsafe fn bring<T, E>(
    retry: SharedRetry<T, E>,
    answer: Answer<T, E>,
    come: fn(SharedRetry<T, E>) -> bool,
) {
    // SAFETY: guaranteed by the caller; the answer has not come yet.
    unsafe { retry.shared().put_answer(answer) };
    if !come(retry.clone()) {
        // SAFETY: the answer will never come: it is still this side's. It is dropped here.
        drop(unsafe { retry.shared().take_answer() });
    }
}

// === impl Answers ===

impl<T, E> Answers<T, E> {
    pub(super) fn new() -> Answers<T, E> {
        Answers { cell: UnsafeCell::new(None), claimed: AtomicU32::new(0) }
    }

    /// Claims the answer to the attempt with that number. Returns `true` to one caller.
    fn claim(&self, number: u32) -> bool {
        let last = number.wrapping_sub(1);
        // ORDER: AcqRel - publishes nothing; the loser sees what the winner did before.
        self.claimed.compare_exchange(last, number, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the answer to the attempt with that number, or to a later one, was claimed.
    fn is_claimed(&self, number: u32) -> bool {
        // ORDER: Acquire - who finds it claimed sees what the winner did before.
        self.claimed.load(Ordering::Acquire) != number.wrapping_sub(1)
    }

    /// # Safety
    /// The caller is the side that answers, and its answer has not come yet.
    unsafe fn put_answer(&self, answer: Answer<T, E>) {
        // SAFETY: guaranteed by the caller: nothing else accesses the cell.
        self.cell.with_mut(|cell| unsafe { *cell = Some(answer) });
    }

    /// # Safety
    /// The caller holds or finishes a retry whose answer has come, or it answers after the end of
    /// the retry.
    pub(super) unsafe fn take_answer(&self) -> Option<Answer<T, E>> {
        // SAFETY: guaranteed by the caller: nothing else accesses the cell.
        self.cell.with_mut(|cell| unsafe { (*cell).take() })
    }
}
