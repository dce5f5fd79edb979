//! The body of a retry: makes an attempt, waits for its answer, pauses, makes the next.

use std::time::Duration;

use crate::dispatch::Panics;
use crate::engine::Engine;
use crate::sync::Arc;
use crate::time::saturating_ns;

use super::armed::{Armed, Body, Next, Repeating};
use super::attempt::{Answer, Answers};
use super::{Attempt, End, Outcome, StartError};

/// The closures of a retry and its progress.
pub(super) struct Trying<T, E, A, D, P> {
    attempt: A,
    /// Makes an attempt with `attempt`, which answers it or leaves the answer to others.
    make: fn(&mut A, Attempt<T, E>),
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
    A: Send + 'static,
    D: FnOnce(Outcome<T, E>) + Send + 'static,
    P: Iterator<Item = Duration> + Send + 'static,
{
    /// Starts a retry; its first attempt is made at `first_ns`.
    pub(super) fn start(
        engine: &Engine,
        first_ns: u64,
        attempt: A,
        make: fn(&mut A, Attempt<T, E>),
        done: D,
        pauses: P,
        limits: Limits,
    ) -> Result<Arc<dyn Repeating>, StartError<(A, D)>> {
        let (is_asking, next, outcome) = (false, Next::Answer, None);
        let body = Trying { attempt, make, done, pauses, limits, is_asking, next, outcome };
        match Armed::start(engine, first_ns, body, Answers::new()) {
            Ok(armed) => Ok(armed),
            Err((end, body)) => Err(StartError::of(end, (body.attempt, body.done))),
        }
    }

    /// The time for another attempt has come.
    fn ask(&mut self, armed: &Arc<Armed<Self>>) {
        // Set before the attempt, which may panic.
        self.is_asking = true;
        self.next = Next::Answer;
        let number = armed.core.add_to_tally(1) as u32;
        let in_time = |timeout_ns| armed.core.clock.now_ns().saturating_add(timeout_ns);
        let until_ns = self.limits.timeout_ns.map(in_time);
        if let Some(attempt) = Attempt::new(armed.clone(), number, until_ns) {
            (self.make)(&mut self.attempt, attempt);
        }
    }

    /// Handles the answer of an attempt.
    fn hear(&mut self, answer: Option<Answer<T, E>>, armed: &Armed<Self>) {
        self.is_asking = false;
        // Replaced below, unless the iterator over pauses panics.
        self.next = Next::End(End::Panicked);
        let attempts = armed.core.tally() as u32;
        let outcome = match answer {
            Some(Answer::Succeeded(value)) => Outcome::Succeeded { value, attempts },
            Some(Answer::Hopeless(error)) => Outcome::GaveUp { error: Some(error), attempts },
            Some(Answer::Failed(error)) => {
                let pause = self.pauses.next().filter(|_| attempts < self.limits.most);
                let now_ns = armed.core.clock.now_ns();
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
    A: Send + 'static,
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

    fn over(self, end: End, armed: &Armed<Self>) {
        // The outcome of an attempt counts unless the retry was cancelled meanwhile.
        let Trying { attempt, done, pauses, outcome, .. } = self;
        let mut panics = Panics::none();
        let ended = Outcome::Ended { end, attempts: armed.core.tally() as u32 };
        panics.run(|| match outcome {
            Some(outcome) if end == End::Finished => done(outcome),
            _ => done(ended),
        });
        panics.drop(attempt);
        panics.drop(pauses);
        panics.go_on();
    }
}
