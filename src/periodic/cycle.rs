//! One word that says who has a thing that is armed time and again, and how it ended.
//!
//! Such a thing is *free* while it waits: for its timer, or for the answer to an attempt. What it
//! waits for *comes* once, and whoever brings it has the thing then: alone runs it, arms it again,
//! and touches what is kept beside the word (the closure, the handle of its timer).
//!
//! ```text
//!             comes                       decided: cancelled, or the engine let go of it
//!   ┌─────► free ───► held ───┐    free ───────────────────────────────► over
//!   └──────────────── release ┘    held ── the holder finds it when it releases ──► over
//! ```
//!
//! - *Releasing.* The holder arms the thing and then releases it. Its timer may come before that:
//!   it leaves `DUE`, and goes. The holder finds this when it releases, and still holds the thing.
//!   So whatever was armed is either waited for, or was seen by the holder: nothing is lost, and
//!   nobody waits for anybody.
//! - *Deciding.* How it ends is decided once, by the first exchange that writes it. Whoever decides
//!   one that is free finishes it: takes the timer back, frees the closure. At one that is held
//!   this is left to the holder.
//! - *Counting.* The exchange by which something comes to a free thing counts it. So the count
//!   stands still from the moment that a decision was made.
//! - At most one thing is waited for at a time: the next is armed by whoever the last one came to.
//!
//! *Orderings*: PERIODIC. Each exchange acquires what the one before it released: a holder what
//! the last holder kept, the one who finishes what the last holder kept, and a holder what was
//! brought while it held.
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/periodic.rs`, `tests/periodic_races.rs`.

use std::fmt;

use crate::sync::{AtomicU64, Ordering};

/// Somebody runs it, arms it or finishes it.
const HELD: u64 = 1;

/// What was armed has come while it was still held.
const DUE: u64 = 1 << 1;

/// How it ended, if it has: an [`End`] as a number.
const END_SHIFT: u32 = 2;
const END: u64 = 0b111 << END_SHIFT;

/// How often something came to it, above all the rest.
const COUNT_SHIFT: u32 = 8;

/// Why something that repeats is over.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::periodic::{End, Run, Schedule};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// let three_times = |run: &Run| drop(run.number() == 3 && run.cancel());
/// let periodic = Schedule::fixed_rate(second).start(&engine, three_times)?;
/// engine.advance(10 * second)?;
/// assert_eq!(periodic.end(), Some(End::Cancelled));
/// assert_eq!(periodic.runs(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum End {
    /// It came to its end by itself: a schedule had no further run, a retry its outcome, a
    /// heartbeat has fired.
    Finished = 1,
    /// It was cancelled, from outside or from inside.
    Cancelled,
    /// The engine stopped, or let go of the task in some other way.
    Stopped,
    /// The engine had no room when it was to be armed again.
    Full,
    /// The closure that says when the next run is due panicked.
    Panicked,
}

/// Who has the thing, and how it ended.
pub struct Cycle {
    word: AtomicU64,
}

/// What whoever brings something got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It was free and is the caller's now, who has to release it or to conclude.
    Hold,
    /// Somebody holds it, and will see that something came.
    Noted,
    /// It is over.
    Over,
}

/// What whoever decides got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The decision stands, and the caller has to finish the thing.
    Finish,
    /// The decision stands, and the holder will finish the thing.
    Noted,
    /// Another decision was first.
    Late,
}

/// How a hold ended, or did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It waits, and is whoever's it comes to next.
    Free,
    /// What it would wait for has come already: the caller still holds it.
    Again,
    /// It is over, and the caller has to finish it.
    Finish(End),
}

// === impl Cycle ===

impl Cycle {
    /// A new thing, which its maker holds.
    pub fn new_held() -> Cycle {
        Cycle { word: AtomicU64::new(HELD) }
    }

    /// What was armed has come.
    pub fn come(&self) -> Came {
        let before = self.exchange(|word| match end(word) {
            Some(_) => None,
            None if word & HELD != 0 => Some(word | DUE),
            None => Some((word | HELD) + (1 << COUNT_SHIFT)),
        });
        match before {
            word if end(word).is_some() => Came::Over,
            word if word & HELD != 0 => Came::Noted,
            _ => Came::Hold,
        }
    }

    /// The holder has armed it, and lets go.
    pub fn release(&self) -> Released {
        let before = self.exchange(|word| match end(word) {
            Some(_) => None,
            None if word & DUE != 0 => Some(word & !DUE),
            None => Some(word & !HELD),
        });
        match end(before) {
            Some(end) => Released::Finish(end),
            None if before & DUE != 0 => Released::Again,
            None => Released::Free,
        }
    }

    /// Decides how it ends, unless somebody has.
    pub fn decide(&self, how: End) -> Decided {
        let before = self.exchange(|word| decided(word, how));
        match before {
            word if end(word).is_some() => Decided::Late,
            word if word & HELD != 0 => Decided::Noted,
            _ => Decided::Finish,
        }
    }

    /// The holder decides, unless somebody has; either way it has to finish the thing.
    pub fn conclude(&self, how: End) -> End {
        let before = self.exchange(|word| decided(word, how));
        end(before).unwrap_or(how)
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        // ORDER(PERIODIC): Acquire - pairs with the exchange that decided.
        end(self.word.load(Ordering::Acquire))
    }

    /// How often something came and found it free. It stands still once it is over.
    pub fn count(&self) -> u64 {
        // ORDER(PERIODIC): Acquire - pairs with the exchange that counted last.
        self.word.load(Ordering::Acquire) >> COUNT_SHIFT
    }

    /// Exchanges the word for what `next` makes of it, and answers what it was before; `None`
    /// leaves it as it is.
    fn exchange(&self, next: impl FnMut(u64) -> Option<u64>) -> u64 {
        // ORDER(PERIODIC): AcqRel - each exchange pairs with the ones before and after it: what is
        // kept passes from holder to holder, and what was brought to the holder. Acquire - where
        // nothing is exchanged, what was decided is read.
        let (Ok(before) | Err(before)) =
            self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before
    }
}

impl fmt::Debug for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (end, count) = (self.end(), self.count());
        f.debug_struct("Cycle").field("end", &end).field("count", &count).finish_non_exhaustive()
    }
}

/// `word` with an end, if it has none.
fn decided(word: u64, how: End) -> Option<u64> {
    end(word).is_none().then_some(word | (how as u64) << END_SHIFT)
}

fn end(word: u64) -> Option<End> {
    match (word & END) >> END_SHIFT {
        0 => None,
        1 => Some(End::Finished),
        2 => Some(End::Cancelled),
        3 => Some(End::Stopped),
        4 => Some(End::Full),
        _ => Some(End::Panicked),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn free() -> Cycle {
        let cycle = Cycle::new_held();
        assert_eq!(cycle.release(), Released::Free);
        cycle
    }

    #[test]
    fn what_comes_to_a_free_one_has_it_and_is_counted() {
        let cycle = free();
        for comes in 1..4 {
            assert_eq!(cycle.come(), Came::Hold);
            assert_eq!((cycle.count(), cycle.end()), (comes, None));
            assert_eq!(cycle.release(), Released::Free);
        }
    }

    #[test]
    fn what_comes_to_one_that_is_held_is_seen_once_by_the_holder() {
        let cycle = Cycle::new_held();
        assert_eq!(cycle.come(), Came::Noted);
        assert_eq!(cycle.release(), Released::Again);
        assert_eq!(cycle.release(), Released::Free);
        assert_eq!(cycle.count(), 0, "the holder was there before");
    }

    #[test]
    fn whoever_ends_a_free_one_finishes_it() {
        let ends = [End::Finished, End::Cancelled, End::Stopped, End::Full, End::Panicked];
        for how in ends {
            let cycle = free();
            assert_eq!(cycle.decide(how), Decided::Finish);
            assert_eq!(cycle.end(), Some(how));
            assert_eq!(cycle.decide(End::Cancelled), Decided::Late);
            assert_eq!((cycle.come(), cycle.count()), (Came::Over, 0));
        }
    }

    #[test]
    fn an_end_that_is_decided_during_a_hold_is_the_holders_to_finish() {
        let cycle = free();
        assert_eq!(cycle.come(), Came::Hold);
        assert_eq!(cycle.decide(End::Cancelled), Decided::Noted);
        assert_eq!(cycle.come(), Came::Over);
        assert_eq!(cycle.release(), Released::Finish(End::Cancelled));
        assert_eq!(cycle.conclude(End::Finished), End::Cancelled);
        assert_eq!(cycle.count(), 1);
    }

    #[test]
    fn an_end_goes_before_what_has_come() {
        let cycle = Cycle::new_held();
        assert_eq!(cycle.come(), Came::Noted);
        assert_eq!(cycle.decide(End::Stopped), Decided::Noted);
        assert_eq!(cycle.release(), Released::Finish(End::Stopped));
    }
}
