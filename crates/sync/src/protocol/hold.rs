//! The hold word: which thread may run a shared thing, and how the thing ended.
//!
//! | the thing | is held to be | what comes to it |
//! |---|---|---|
//! | an operation of the purgatory | tried | checks of its keys |
//! | a periodic, retry or heartbeat | run, and armed again | its timer, the answer to an attempt |
//!
//! At most one thread holds it. The holder alone touches the state beside the word: closures,
//! places under keys, the handle of the timer. No call waits for another thread.
//!
//! ```text
//!             come                            decide
//!   ┌─────► free ───► held ───┐       free ───────────► over: the decider finishes it
//!   └──────────────── release ┘       held ───────────► over: the holder finishes it
//! ```
//!
//! | the thing is | [`come`] | [`release`], by the holder | [`decide`] |
//! |---|---|---|---|
//! | free | is counted; `Hold`: the caller holds it | | it is over; `Finish`: by the caller |
//! | held | leaves `AGAIN`; `Noted` | `Free`: it waits | it is over; `Noted`: by the holder |
//! | held, `AGAIN` | the same | takes `AGAIN` away; `Again`: still held | the same |
//! | over | `Over` | `Finish`: by the holder | `Late` |
//!
//! - *No event is lost.* What comes to a held thing leaves `AGAIN`. The holder finds that when it
//!   releases, and tries or runs once more. If the thing is over by then, its finisher finds it
//!   ([`is_noted`]), and ends what was brought.
//! - *One end.* The first CAS that writes an end decides. Nobody can take a thing that is over. So
//!   its finisher has it for good: the decider of a free thing, otherwise the holder.
//! - *The count* is how often an event came while the thing was free. It stands still once the
//!   thing is over.
//!
//! *From inside.* The thing's own closure may come to it or decide. `is_own` says whether the
//! calling thread is inside of the hold.
//! - A check from inside a try leaves nothing: it would ask for itself for ever, and its own try
//!   can look at what it has changed. The answer from inside an attempt must be heard, so for
//!   attempts `is_own` is always `false`.
//! - A decision from inside counts as the holder's (`OWN`). The purgatory counts operations for the
//!   caller whose try completed them.
//!
//! (Two operations whose tries check each other's key repeat while the tries overlap. They stop
//! when one try ends and the other does not ask.)
//!
//! *Orderings*: HOLD. Each CAS is AcqRel: a holder, and the thread that finishes, see the writes of
//! the holder before, and of the threads that came during its hold. So a thread that finds `AGAIN`
//! writes the word all the same. Reads of the end and of the count are Acquire.
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/hold.rs`, `tests/races/periodic/races.rs`,
//! `tests/races/purgatory.rs`.
//!
//! [`come`]: HoldWord::come
//! [`release`]: HoldWord::release
//! [`decide`]: HoldWord::decide
//! [`is_noted`]: HoldWord::is_noted

use std::fmt;
use std::marker::PhantomData;

use crate::{AtomicU64, Ordering};

use super::ends::EndCode;

/// A thread tries, runs, arms or finishes the thing.
const HELD: u64 = 1;

/// Something came while it was held.
const AGAIN: u64 = 1 << 1;

/// The holder decided how it ended, or its own thread did from inside.
const OWN: u64 = 1 << 2;

/// How it ended, if it has: the code of an [`EndCode`].
const END_SHIFT: u32 = 3;
const END: u64 = 0b111 << END_SHIFT;

/// How often something came and found it free, above all the rest.
const COUNT_SHIFT: u32 = 8;

/// Whether a thread holds a thing, and how the thing ended.
pub struct HoldWord<E> {
    word: AtomicU64,
    end: PhantomData<E>,
}

/// The result of coming to a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It was free. The caller holds it now, and has to release it or to conclude.
    Hold,
    /// It is held, and the holder will see that something came.
    Noted,
    /// It is over.
    Over,
}

/// The result of deciding.
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
pub enum Released<E> {
    /// The thing waits. Another thread may hold it by now.
    Free,
    /// Something came meanwhile: the caller still holds it.
    Again,
    /// It is over, and the caller has to finish it.
    Finish {
        /// How it ended.
        how: E,
        /// Whether the holder itself decided that.
        by_holder: bool,
    },
}

// === impl HoldWord ===

impl<E: EndCode> HoldWord<E> {
    /// The word of a new thing, which its maker holds.
    pub fn new_held() -> HoldWord<E> {
        HoldWord { word: AtomicU64::new(HELD), end: PhantomData }
    }

    /// Something comes. If `is_own` says that the calling thread is inside of the hold, nothing is
    /// left for the holder.
    pub fn come(&self, is_own: impl Fn() -> bool) -> Came {
        let before = self.update(|word| match is_over(word) {
            true => None,
            false if word & HELD == 0 => Some((word | HELD) + (1 << COUNT_SHIFT)),
            false if is_own() => None,
            false => Some(word | AGAIN),
        });
        match before {
            word if is_over(word) => Came::Over,
            word if word & HELD != 0 => Came::Noted,
            _ => Came::Hold,
        }
    }

    /// The holder releases the thing, unless something came or the thing is over.
    pub fn release(&self) -> Released<E> {
        let before = self.update(|word| match is_over(word) {
            true => None,
            false if word & AGAIN != 0 => Some(word & !AGAIN),
            false => Some(word & !HELD),
        });
        match end(before) {
            Some(how) => Released::Finish { how, by_holder: before & OWN != 0 },
            None if before & AGAIN != 0 => Released::Again,
            None => Released::Free,
        }
    }

    /// The holder's part: tries, and tries again as long as something comes, until a try succeeds,
    /// the thing is over, or nothing came during the last try. A success is the end `done`.
    pub fn work(&self, done: E, mut succeeds: impl FnMut() -> bool) -> Released<E> {
        loop {
            if succeeds() {
                return self.conclude(done);
            }
            match self.release() {
                Released::Again => {}
                released => return released,
            }
        }
    }

    /// Decides how it ends, unless that is decided. `is_own` says whether the calling thread is
    /// inside of the hold, and so decides for the holder.
    pub fn decide(&self, how: E, is_own: impl Fn() -> bool) -> Decided {
        let before = self.update(|word| {
            let own = if word & HELD != 0 && is_own() { OWN } else { 0 };
            decided(word, how, own)
        });
        match before {
            word if is_over(word) => Decided::Late,
            word if word & HELD != 0 => Decided::Noted,
            _ => Decided::Finish,
        }
    }

    /// The holder decides, unless that is decided. Either way it has to finish the thing.
    pub fn conclude(&self, how: E) -> Released<E> {
        let before = self.update(|word| decided(word, how, OWN));
        match end(before) {
            Some(how) => Released::Finish { how, by_holder: before & OWN != 0 },
            None => Released::Finish { how, by_holder: true },
        }
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<E> {
        // ORDER(HOLD): Acquire - pairs with the CAS that decided.
        end(self.word.load(Ordering::Acquire))
    }

    /// Whether something came to a thing that is over while it was held for the last time: no
    /// [`release`](HoldWord::release) has heard that. For the thread that finishes the thing.
    pub fn is_noted(&self) -> bool {
        // ORDER(HOLD): Acquire - pairs with the CAS of what came.
        self.word.load(Ordering::Acquire) & AGAIN != 0
    }

    /// How often something came and found it free. It stands still once it is over.
    pub fn count(&self) -> u64 {
        // ORDER(HOLD): Acquire - pairs with the CAS that counted last.
        self.word.load(Ordering::Acquire) >> COUNT_SHIFT
    }

    /// Replaces the word by the result of `next`, and returns what it was before. `None` leaves it
    /// as it is.
    fn update(&self, next: impl FnMut(u64) -> Option<u64>) -> u64 {
        // ORDER(HOLD): AcqRel - each CAS pairs with the ones before and after it: the hold passes
        // from thread to thread, and what was brought to the holder. Acquire - where the word
        // stays as it is, its end is read.
        let (Ok(before) | Err(before)) =
            self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before
    }
}

debug! { impl[E: EndCode + fmt::Debug] HoldWord[E] {
    end = |this| this.end(),
    count = |this| this.count(),
} }

/// `word` with an end, if it has none.
fn decided(word: u64, how: impl EndCode, own: u64) -> Option<u64> {
    (!is_over(word)).then_some(word | how.code() << END_SHIFT | own)
}

fn is_over(word: u64) -> bool {
    word & END != 0
}

fn end<E: EndCode>(word: u64) -> Option<E> {
    E::from_code((word & END) >> END_SHIFT)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::{Decision, End};
    use super::*;
    use Decision::{Cancelled, Completed, Expired};

    const NOT_OWN: fn() -> bool = || false;

    /// A state, the results of `come`, `release` and `decide` there, and the count after `come`.
    type Row<'a> = (&'a dyn Fn() -> HoldWord<End>, Came, Option<Released<End>>, Decided, u64);

    fn free<E: EndCode + fmt::Debug + PartialEq>() -> HoldWord<E> {
        let hold = HoldWord::new_held();
        assert_eq!(hold.release(), Released::Free);
        hold
    }

    fn finish<E>(how: E, by_holder: bool) -> Released<E> {
        Released::Finish { how, by_holder }
    }

    #[test]
    fn in_each_state_a_call_does_what_the_table_says() {
        let held = HoldWord::<End>::new_held;
        let again = || {
            let hold = held();
            assert_eq!(hold.come(NOT_OWN), Came::Noted);
            hold
        };
        let over = || {
            let hold = again();
            assert_eq!(hold.decide(End::Stopped, NOT_OWN), Decided::Noted);
            hold
        };
        let stopped = finish(End::Stopped, false);
        let table: [Row<'_>; 4] = [
            (&free, Came::Hold, None, Decided::Finish, 1),
            (&held, Came::Noted, Some(Released::Free), Decided::Noted, 0),
            (&again, Came::Noted, Some(Released::Again), Decided::Noted, 0),
            (&over, Came::Over, Some(stopped), Decided::Late, 0),
        ];
        for (state, came, released, decided, count) in table {
            let hold = state();
            assert_eq!((hold.come(NOT_OWN), hold.count()), (came, count));
            assert!(released.is_none_or(|released| state().release() == released));
            assert_eq!(state().decide(End::Full, NOT_OWN), decided);
        }
        let unheard = [free(), held(), again(), over()].map(|hold| {
            hold.decide(End::Full, NOT_OWN);
            hold.is_noted()
        });
        assert_eq!(unheard, [false, false, true, true]);
        let hold = again();
        assert_eq!([hold.release(), hold.release()], [Released::Again, Released::Free]);
    }

    #[test]
    fn a_decision_about_a_free_one_finishes_it() {
        fn decide<E: EndCode + fmt::Debug + PartialEq>() {
            for &how in E::ALL {
                let hold = free();
                // On a free thing there is no holder to decide for.
                assert_eq!((hold.decide(how, || true), hold.end()), (Decided::Finish, Some(how)));
                assert_eq!(hold.release(), finish(how, false));
            }
        }
        decide::<End>();
        decide::<Decision>();
    }

    /// Tries until there is no reason for another try. Returns how that ended, and after how many
    /// tries.
    fn work(mut succeeds: impl FnMut(&HoldWord<Decision>) -> bool) -> (Released<Decision>, u32) {
        let (hold, mut tries) = (HoldWord::new_held(), 0);
        let released = hold.work(Completed, || {
            tries += 1;
            succeeds(&hold)
        });
        (released, tries)
    }

    #[test]
    fn what_comes_during_a_try_leads_to_one_more_unless_it_comes_from_inside() {
        let mut comes = 2;
        let released = work(|hold| {
            while comes > 0 {
                assert_eq!(hold.come(NOT_OWN), Came::Noted);
                comes -= 1;
            }
            false
        });
        assert_eq!(released, (Released::Free, 2));
        let from_inside = |hold: &HoldWord<_>| hold.come(|| true) != Came::Noted;
        assert_eq!(work(from_inside), (Released::Free, 1));
        assert_eq!(work(|_| true), (finish(Completed, true), 1));
    }

    #[test]
    fn the_first_decision_stands_whatever_the_try_says() {
        for (decision, is_own) in [(Completed, true), (Cancelled, true), (Cancelled, false)] {
            for answer in [false, true] {
                let released = work(|hold| {
                    assert_eq!(hold.decide(decision, || is_own), Decided::Noted);
                    assert_eq!(hold.decide(Expired, || true), Decided::Late);
                    answer
                });
                assert_eq!(released, (finish(decision, is_own), 1));
            }
        }
    }

    #[test]
    fn the_holder_may_decide_without_a_try() {
        let hold = HoldWord::new_held();
        assert_eq!(hold.conclude(Cancelled), finish(Cancelled, true));
        assert_eq!(hold.conclude(Completed), finish(Cancelled, true));
        assert_eq!(hold.come(NOT_OWN), Came::Over);
    }
}
