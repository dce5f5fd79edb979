//! One word that says who may try an operation, and how it ended.
//!
//! An operation is *held* by at most one thread at a time. The holder alone tries it, and alone
//! touches what is kept beside the word (its places under keys, its timer). Whoever finds it held
//! leaves word and goes: nobody waits for anybody.
//!
//! - A *check* takes an operation that is free, and leaves `AGAIN` at one that is held: the holder
//!   tries once more before it lets go. So each check is followed by a whole try that began after
//!   it, or finds the operation decided.
//! - A *decision* (complete, expire, cancel) is made once, by the first exchange that writes one.
//!   Whoever decides an operation that is free finishes it; at one that is held the decision is
//!   left for the holder to carry out, whatever its try answers.
//! - A decided operation is nobody's to take any more: whoever finishes it has it for good.
//!
//! A decision by the very thread that is inside a try of the operation is the holder's own, as if
//! the try had answered with it.
//!
//! A check by the very thread that is inside a try of the same operation leaves nothing: it would
//! ask for itself for ever. What it might have changed, its own try can look at. (Two operations
//! that check each other's key each time they are tried, on two threads, ask each other again for
//! as long as their tries overlap; the first that ends while the other does not ask ends both.)
//!
//! *Orderings*: TRIAL. Each exchange acquires what the one before it released: a holder what the
//! last holder kept and what each check that asked it had seen; a check that finds `AGAIN` there
//! already writes the word all the same, so that what it has seen is published too.
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/trial.rs`, `tests/purgatory_races.rs`.

use std::fmt;

use crate::sync::{AtomicU32, Ordering};

/// Somebody tries the operation, or finishes it.
const HELD: u32 = 1;

/// A check came by while it was held.
const AGAIN: u32 = 1 << 1;

/// How it ended, if it has: a [`Decision`] as a number, above the flags.
const DECISION_SHIFT: u32 = 2;
const DECISION: u32 = 0b11 << DECISION_SHIFT;

/// That was decided inside a try, by the thread that tries.
const OWN: u32 = 1 << 4;

/// How an operation ended.
///
/// ```
/// use std::time::Duration;
/// use tickless::purgatory::{Decision, Operation, Purgatory};
///
/// struct Join;
/// impl Operation for Join {
///     fn try_complete(&self) -> bool {
///         false
///     }
///     fn on_complete(&self) {}
/// }
///
/// let purgatory = Purgatory::new()?;
/// let minute = Duration::from_secs(60);
/// let arrival = purgatory.try_complete_else_watch(Join.into(), ["group"], minute)?;
/// let ticket = arrival.into_delayed().expect("it cannot complete");
/// purgatory.stop();
/// assert_eq!(ticket.decision(), Some(Decision::Cancelled));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It was completed: a try said that it can be, or somebody forced it.
    Completed = 1,
    /// Its timeout came first.
    Expired,
    /// It was cancelled, or its purgatory stopped: none of its callbacks is called.
    Cancelled,
}

/// The state of one operation.
pub struct Trial {
    word: AtomicU32,
}

/// What a check got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The operation was free and is the caller's to [`hold`](Trial::hold).
    Hold,
    /// Another call holds it, and will try it again.
    Noted,
    /// It is decided.
    Over,
}

/// What the maker of a decision got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The decision stands, and the caller has to finish the operation.
    Finish,
    /// The decision stands, and whoever holds the operation will finish it.
    Noted,
    /// Another decision was first.
    Late,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation is free again and waits.
    Waits,
    /// It is decided, and the holder has to finish it.
    Finish {
        /// What was decided.
        decision: Decision,
        /// Whether the holder decided: its try succeeded or forced it, or it gave up.
        by_holder: bool,
    },
}

// === impl Outcome ===

impl Outcome {
    /// The holder's try succeeded.
    pub const COMPLETED: Outcome =
        Outcome::Finish { decision: Decision::Completed, by_holder: true };
}

// === impl Trial ===

impl Trial {
    /// A new operation, which its maker holds.
    pub fn new_held() -> Trial {
        Trial { word: AtomicU32::new(HELD) }
    }

    /// Asks for a try. `is_own` says whether the calling thread is inside a try of this very
    /// operation: only then does nobody try again.
    pub fn check(&self, is_own: impl Fn() -> bool) -> Asked {
        let before = self.exchange(|word| {
            if decision(word).is_some() || (word & HELD != 0 && is_own()) {
                None
            } else if word & HELD != 0 {
                Some(word | AGAIN)
            } else {
                Some(word | HELD)
            }
        });
        match before {
            word if decision(word).is_some() => Asked::Over,
            word if word & HELD != 0 => Asked::Noted,
            _ => Asked::Hold,
        }
    }

    /// Decides how the operation ends, unless somebody has. `is_own` is as for
    /// [`check`](Trial::check).
    pub fn decide(&self, decision_made: Decision, is_own: impl Fn() -> bool) -> Decided {
        let before = self.exchange(|word| {
            let own = if word & HELD != 0 && is_own() { OWN } else { 0 };
            decided(word, decision_made).map(|word| word | own)
        });
        match before {
            word if decision(word).is_some() => Decided::Late,
            word if word & HELD != 0 => Decided::Noted,
            _ => Decided::Finish,
        }
    }

    /// The holder's part: tries, and tries again as long as somebody asks, until the operation is
    /// decided or nobody has asked during the last try.
    pub fn hold(&self, mut try_complete: impl FnMut() -> bool) -> Outcome {
        loop {
            if try_complete() {
                return self.conclude(Decision::Completed);
            }
            let before = self.exchange(|word| match decision(word) {
                Some(_) => None,
                None if word & AGAIN != 0 => Some(word & !AGAIN),
                None => Some(word & !HELD),
            });
            if let Some(outcome) = outcome(before) {
                return outcome;
            }
            if before & AGAIN == 0 {
                return Outcome::Waits;
            }
        }
    }

    /// The holder decides, unless somebody has; either way it has to finish the operation.
    pub fn conclude(&self, decision_made: Decision) -> Outcome {
        let before = self.exchange(|word| decided(word, decision_made));
        outcome(before).unwrap_or(Outcome::Finish { decision: decision_made, by_holder: true })
    }

    /// How the operation ended, if it has.
    pub fn decision(&self) -> Option<Decision> {
        // ORDER(TRIAL): Acquire - pairs with the exchange that decided.
        decision(self.word.load(Ordering::Acquire))
    }

    /// Exchanges the word for what `next` makes of it, and answers what it was before; `None`
    /// leaves it as it is.
    fn exchange(&self, next: impl FnMut(u32) -> Option<u32>) -> u32 {
        // ORDER(TRIAL): AcqRel - each exchange pairs with the ones before and after it: the hold
        // passes from one to the next, and a check's news to the holder. Acquire - where nothing
        // is exchanged, what was decided is read.
        let (Ok(before) | Err(before)) =
            self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before
    }
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("decision", &self.decision()).finish_non_exhaustive()
    }
}

/// `word` with a decision, if it has none.
fn decided(word: u32, decision_made: Decision) -> Option<u32> {
    decision(word).is_none().then_some(word | (decision_made as u32) << DECISION_SHIFT)
}

/// How a hold of an operation ends that is decided.
fn outcome(word: u32) -> Option<Outcome> {
    let by_holder = word & OWN != 0;
    decision(word).map(|decision| Outcome::Finish { decision, by_holder })
}

fn decision(word: u32) -> Option<Decision> {
    match (word & DECISION) >> DECISION_SHIFT {
        0 => None,
        1 => Some(Decision::Completed),
        2 => Some(Decision::Expired),
        _ => Some(Decision::Cancelled),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use Decision::{Cancelled, Completed, Expired};

    const NOT_OWN: fn() -> bool = || false;

    fn free() -> Trial {
        let trial = Trial::new_held();
        assert_eq!(trial.hold(|| false), Outcome::Waits);
        trial
    }

    #[test]
    fn a_check_takes_what_is_free_and_tries_it() {
        let trial = free();
        assert_eq!(trial.check(NOT_OWN), Asked::Hold);
        let outcome = trial.hold(|| true);
        assert_eq!(outcome, Outcome::Finish { decision: Completed, by_holder: true });
        assert_eq!(trial.decision(), Some(Completed));
        assert_eq!(trial.check(NOT_OWN), Asked::Over);
    }

    #[test]
    fn checks_during_a_try_lead_to_one_more() {
        let trial = Trial::new_held();
        let mut tries = 0;
        let outcome = trial.hold(|| {
            tries += 1;
            if tries == 1 {
                assert_eq!(trial.check(NOT_OWN), Asked::Noted);
                assert_eq!(trial.check(NOT_OWN), Asked::Noted);
            }
            false
        });
        assert_eq!((outcome, tries), (Outcome::Waits, 2));
    }

    #[test]
    fn a_check_from_inside_its_own_try_asks_for_nothing() {
        let trial = Trial::new_held();
        let mut tries = 0;
        let outcome = trial.hold(|| {
            tries += 1;
            assert_eq!(trial.check(|| true), Asked::Noted);
            false
        });
        assert_eq!((outcome, tries), (Outcome::Waits, 1));
    }

    #[test]
    fn the_first_decision_stands_and_its_maker_or_the_holder_finishes() {
        let trial = free();
        assert_eq!(trial.decide(Expired, NOT_OWN), Decided::Finish);
        assert_eq!(trial.decide(Completed, NOT_OWN), Decided::Late);
        assert_eq!(trial.decision(), Some(Expired));

        for answer in [false, true] {
            let trial = Trial::new_held();
            let outcome = trial.hold(|| {
                assert_eq!(trial.decide(Cancelled, NOT_OWN), Decided::Noted);
                assert_eq!(trial.decide(Expired, NOT_OWN), Decided::Late);
                answer
            });
            assert_eq!(outcome, Outcome::Finish { decision: Cancelled, by_holder: false });
        }
    }

    #[test]
    fn a_decision_inside_its_own_try_is_the_holders() {
        for (decision, answer) in [(Completed, false), (Completed, true), (Cancelled, true)] {
            let trial = Trial::new_held();
            let outcome = trial.hold(|| {
                assert_eq!(trial.decide(decision, || true), Decided::Noted);
                answer
            });
            assert_eq!(outcome, Outcome::Finish { decision, by_holder: true });
        }
        let late = Trial::new_held();
        let outcome = late.hold(|| {
            assert_eq!(late.decide(Cancelled, NOT_OWN), Decided::Noted);
            assert_eq!(late.decide(Completed, || true), Decided::Late);
            true
        });
        assert_eq!(outcome, Outcome::Finish { decision: Cancelled, by_holder: false });
    }

    #[test]
    fn a_decision_during_a_try_spares_the_next() {
        let trial = Trial::new_held();
        let mut tries = 0;
        let outcome = trial.hold(|| {
            tries += 1;
            assert_eq!(trial.check(NOT_OWN), Asked::Noted);
            assert_eq!(trial.decide(Completed, NOT_OWN), Decided::Noted);
            false
        });
        assert_eq!(tries, 1);
        assert_eq!(outcome, Outcome::Finish { decision: Completed, by_holder: false });
    }

    #[test]
    fn whoever_holds_may_decide_without_a_try() {
        let trial = Trial::new_held();
        let outcome = trial.conclude(Cancelled);
        assert_eq!(outcome, Outcome::Finish { decision: Cancelled, by_holder: true });
        assert_eq!(trial.check(NOT_OWN), Asked::Over);
    }
}
