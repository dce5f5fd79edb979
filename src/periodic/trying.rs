//! The body of a retry: makes an attempt, waits for its answer, pauses, makes the next.

use std::time::Duration;

use crate::dispatch::Panics;
use crate::engine::Engine;
use crate::sync::{Arc, Ordering};
use crate::time::saturating_ns;

use super::armed::{Armed, Arms, Body, Next};
use super::attempt::{Answer, Answers};
use super::retrying::State;
use super::{Attempt, End, Outcome, Retrying, StartError};

/// Makes an attempt.
pub(super) trait Make<T: Send + 'static, E: Send + 'static>: Send + 'static {
    fn make(&mut self, attempt: Attempt<T, E>);
}

/// Makes attempts with a closure that returns the answer.
pub(super) struct AtOnce<A>(pub(super) A);

/// Makes attempts with a closure that starts them; the answer comes later.
pub(super) struct Later<A>(pub(super) A);

/// The closures of a retry and its progress.
pub(super) struct Trying<T, E, A, D, P> {
    attempt: A,
    done: D,
    pauses: P,
    limits: Limits,
    /// An attempt has begun, and its answer has not come yet.
    is_asking: bool,
    next: Next,
    outcome: Option<Outcome<T, E>>,
}

/// The limits of a retry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The most attempts.
    pub(super) most: u32,
    /// No attempt begins later than this.
    pub(super) until_ns: u64,
    /// How long each attempt may take.
    pub(super) timeout_ns: Option<u64>,
}

// === impl Trying ===

impl<T, E, A, D, P> Trying<T, E, A, D, P>
where
    T: Send + 'static,
    E: Send + 'static,
    A: Make<T, E>,
    D: FnOnce(Outcome<T, E>) + Send + 'static,
    P: Iterator<Item = Duration> + Send + 'static,
{
    /// A retry that has not begun.
    pub(super) fn new(attempt: A, done: D, pauses: P, limits: Limits) -> Self {
        let (is_asking, next) = (false, Next::Answer);
        Trying { attempt, done, pauses, limits, is_asking, next, outcome: None }
    }

    /// Starts the retry; its first attempt is made at `first_ns`.
    pub(super) fn start(
        self,
        engine: &Engine,
        first_ns: u64,
    ) -> Result<Retrying, StartError<(A, D)>> {
        match Armed::start(engine, first_ns, self, Answers::new()) {
            Ok(armed) => Ok(Retrying::of(armed)),
            Err((end, body)) => Err(StartError::of(end, (body.attempt, body.done))),
        }
    }

    /// The time for another attempt has come.
    fn ask(&mut self, armed: &Arc<Armed<Self>>) {
        // Set before the attempt, which may panic.
        self.is_asking = true;
        self.next = Next::Answer;
        // ORDER: Relaxed - a count for observation.
        let number = armed.shared.attempts.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let attempt = match self.limits.timeout_ns {
            None => Some(Attempt::new(armed.clone(), number)),
            Some(timeout_ns) => {
                let until_ns = armed.clock().now_ns().saturating_add(timeout_ns);
                Attempt::limited(armed.clone(), number, until_ns)
            }
        };
        if let Some(attempt) = attempt {
            self.attempt.make(attempt);
        }
    }

    /// Handles the answer of an attempt.
    fn hear(&mut self, answer: Option<Answer<T, E>>, armed: &Armed<Self>) {
        self.is_asking = false;
        // Replaced below, unless the iterator over pauses panics.
        self.next = Next::End(End::Panicked);
        let attempts = armed.shared.attempts();
        let outcome = match answer {
            Some(Answer::Succeeded(value)) => Outcome::Succeeded { value, attempts },
            Some(Answer::Hopeless(error)) => Outcome::GaveUp { error: Some(error), attempts },
            Some(Answer::Failed(error)) => {
                let pause = self.pauses.next().filter(|_| attempts < self.limits.most);
                let now_ns = armed.clock().now_ns();
                let next_ns = pause.map(|pause| now_ns.saturating_add(saturating_ns(pause)));
                if let Some(next_ns) = next_ns.filter(|&next_ns| next_ns <= self.limits.until_ns) {
                    self.next = Next::At(next_ns);
                    return;
                }
                Outcome::GaveUp { error, attempts }
            }
            None => Outcome::GaveUp { error: None, attempts },
        };
        self.outcome = Some(outcome);
        self.next = Next::End(End::Finished);
    }
}

impl<T, E, A, D, P> Body for Trying<T, E, A, D, P>
where
    T: Send + 'static,
    E: Send + 'static,
    A: Make<T, E>,
    D: FnOnce(Outcome<T, E>) + Send + 'static,
    P: Iterator<Item = Duration> + Send + 'static,
{
    type Shared = Answers<T, E>;

    fn fire(&mut self, armed: &Arc<Armed<Self>>) {
        if self.is_asking {
            // SAFETY: this is the holder, and the answer has come: nothing else was waited for.
            self.hear(unsafe { armed.shared.take() }, armed);
        } else {
            self.ask(armed);
        }
    }

    fn next(&mut self, _armed: &Armed<Self>) -> Next {
        self.next
    }

    fn over(self, end: End, answers: &Answers<T, E>) {
        // The outcome of an attempt counts unless the retry was cancelled meanwhile.
        let Trying { attempt, done, pauses, outcome, .. } = self;
        let mut panics = Panics::none();
        let ended = Outcome::Ended { end, attempts: answers.attempts() };
        panics.run(|| match outcome {
            Some(outcome) if end == End::Finished => done(outcome),
            _ => done(ended),
        });
        panics.drop(attempt);
        panics.drop(pauses);
        panics.go_on();
    }
}

impl<T, E, A, D, P> State for Armed<Trying<T, E, A, D, P>>
where
    T: Send + 'static,
    E: Send + 'static,
    A: Make<T, E>,
    D: FnOnce(Outcome<T, E>) + Send + 'static,
    P: Iterator<Item = Duration> + Send + 'static,
{
    fn cancel(&self) -> bool {
        Arms::cancel(self)
    }

    fn end(&self) -> Option<End> {
        Arms::end(self)
    }

    fn attempts(&self) -> u32 {
        self.shared.attempts()
    }
}

debug! { impl[T, E, A, D, P] Trying[T, E, A, D, P] { next = |this| this.next } }

// === impl AtOnce and Later ===

impl<T, E, A> Make<T, E> for AtOnce<A>
where
    T: Send + 'static,
    E: Send + 'static,
    A: FnMut(u32) -> Result<T, E> + Send + 'static,
{
    fn make(&mut self, attempt: Attempt<T, E>) {
        match (self.0)(attempt.number()) {
            Ok(value) => attempt.succeed(value),
            Err(error) => attempt.fail(error),
        }
    }
}

impl<T, E, A> Make<T, E> for Later<A>
where
    T: Send + 'static,
    E: Send + 'static,
    A: FnMut(Attempt<T, E>) + Send + 'static,
{
    fn make(&mut self, attempt: Attempt<T, E>) {
        (self.0)(attempt);
    }
}
