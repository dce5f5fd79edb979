//! The body of a retry: makes an attempt, waits for its answer, pauses, makes the next.

use std::time::Duration;

use crate::dispatch::{Panics, Task};
use crate::sync::Arc;
use crate::time::saturating_ns;

use super::armed::{Body, Next, Repeater, RepeaterCore};
use super::attempt::{Answer, Answers};
use super::{Attempt, End, Outcome};

/// The closures of a retry, its limits and its progress.
pub(super) struct Trying<T, E, A, D, P> {
    pub(super) attempt: A,
    /// Makes an attempt with `attempt`, which answers it or leaves the answer to others.
    pub(super) make: fn(&mut A, Attempt<T, E>),
    pub(super) done: D,
    pub(super) pauses: P,
    /// The most attempts.
    pub(super) most: u32,
    /// No attempt begins later than this.
    pub(super) until_ns: u64,
    /// How long each attempt may take.
    pub(super) timeout_ns: Option<u64>,
    /// An attempt has begun, and its answer has not come yet.
    pub(super) is_asking: bool,
    pub(super) outcome: Option<Outcome<T, E>>,
}

// === impl Trying ===

impl<T, E, A, D, P: Iterator<Item = Duration>> Trying<T, E, A, D, P> {
    /// Takes the answer to the attempt.
    fn hear(
        &mut self,
        answer: Option<Answer<T, E>>,
        core: &RepeaterCore,
        panics: &mut Panics,
    ) -> Next {
        let attempts = core.tally() as u32;
        self.outcome = Some(match answer {
            Some(Answer::Succeeded(value)) => Outcome::Succeeded { value, attempts },
            Some(Answer::Hopeless(error)) => Outcome::GaveUp { error: Some(error), attempts },
            Some(Answer::Failed(error)) => {
                let Some(pause) = panics.run(|| self.pauses.next()) else {
                    panics.drop(error);
                    return Next::End(End::Panicked);
                };
                let after = |pause| core.clock.now_ns().saturating_add(saturating_ns(pause));
                let next_ns = pause.filter(|_| attempts < self.most).map(after);
                if let Some(next_ns) = next_ns.filter(|&next_ns| next_ns <= self.until_ns) {
                    panics.drop(error);
                    return Next::At(next_ns);
                }
                Outcome::GaveUp { error, attempts }
            }
            None => Outcome::GaveUp { error: None, attempts },
        });
        Next::End(End::Finished)
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
    type Payload = Task;

    fn fire(&mut self, armed: &Arc<Repeater<Self>>, panics: &mut Panics) -> Next {
        let core = &armed.core;
        self.is_asking = !self.is_asking;
        if !self.is_asking {
            // SAFETY: this is the holder, and the answer has come: nothing else was waited for.
            return self.hear(unsafe { armed.shared.take_answer() }, core, panics);
        }
        let number = core.add_to_tally(1) as u32;
        let in_time = |timeout_ns| core.clock.now_ns().saturating_add(timeout_ns);
        let until_ns = self.timeout_ns.map(in_time);
        if let Some(attempt) = Attempt::new(armed.engine, armed.clone(), number, until_ns) {
            panics.run(|| (self.make)(&mut self.attempt, attempt));
        }
        Next::Answer
    }

    fn over(self, end: End, armed: &Repeater<Self>) {
        // The outcome of an attempt counts unless the retry was cancelled meanwhile.
        let Trying { attempt, done, pauses, outcome, .. } = self;
        let mut panics = Panics::none();
        let ended = Outcome::Ended { end, attempts: armed.core.tally() as u32 };
        panics.run(|| match outcome {
            Some(outcome) if end == End::Finished => done(outcome),
            _ => done(ended),
        });
        if armed.core.word.is_noted() {
            // SAFETY: what came was the answer, or there is none, and nothing else was waited for.
            panics.drop(unsafe { armed.shared.take_answer() });
        }
        panics.drop(attempt);
        panics.drop(pauses);
        panics.go_on();
    }
}
