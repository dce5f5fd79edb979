//! The reaper's side of an entry that it took out of a bucket.
//!
//! *Owner*: the one thread that runs the shard's turn; it holds the entry by the list bit. Every
//! decision is a CAS from exactly the word that it was made on. If the CAS fails, the caller
//! decides again. If a timer is not held, nobody else can change its word, and the CAS is left out.
//!
//! *Orderings*: CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE.

use std::ptr::NonNull;

use crate::sync::Ordering;
use crate::time::Place;

use super::{Entry, Phase, Word};

impl<T> Entry<T> {
    /// Ends a pending timer: `end` is `Fired` or `Stopped`. Calls `prepare` when the timer has
    /// ended, then passes the payload to `take`; then the list lets go. (A payload that is returned
    /// by value is copied twice more.) Returns whether the entry is the reaper's memory now,
    /// because no handle is left. Returns `None` if the word is no longer `word`: decide again.
    ///
    /// # Safety
    /// The caller holds the list bit, `word` was read from this entry and is pending. `take` does
    /// not panic: an entry without a handle is still pending while it runs, and its payload is out.
    /// After `Some(false)` the caller does not use the entry again.
    #[inline]
    pub unsafe fn end(
        entry: NonNull<Entry<T>>,
        word: Word,
        end: Phase,
        prepare: impl FnOnce(),
        take: impl FnOnce(T),
    ) -> Option<bool> {
        debug_assert!(word.phase() == Phase::Pending && word.in_list(), "{word:?}");
        // SAFETY: the caller holds it.
        let this = unsafe { entry.as_ref() };
        if !word.is_held() {
            prepare();
            // SAFETY: without a handle the list is the only holder: the payload is ours.
            take(unsafe { this.take_payload() });
            this.set_free();
            return Some(true);
        }
        // The list bit stays until the payload is out: a handle dropped in between must not
        // free the entry under us.
        if !this.cas(word, word.with_phase(end)) {
            return None;
        }
        prepare();
        // SAFETY: this exchange left `Pending`, so the payload is ours, and once.
        take(unsafe { this.take_payload() });
        // ORDER(RELEASE): AcqRel - Release: our use of the entry is over before a handle sees
        // the bit cleared and reuses it; Acquire: if the handle let go first, its use is over.
        let before = Word(this.word.fetch_and(Word::KEEP_ALL_BUT_LIST, Ordering::AcqRel));
        let mine = !before.is_held();
        if mine {
            this.set_free();
        }
        Some(mine)
    }

    /// Clears the list bit of a vacancy. Returns `Some(true)` if nobody kept it (it is the reaper's
    /// memory now), `Some(false)` if somebody did, and `None` if the word is no longer `word`:
    /// decide again.
    ///
    /// # Safety
    /// The caller holds the list bit, `word` was read from this entry and is vacant. After
    /// `Some(false)` it does not use the entry again.
    #[inline]
    pub unsafe fn unlink(this: NonNull<Entry<T>>, word: Word) -> Option<bool> {
        debug_assert!(word.phase() == Phase::Vacant && word.in_list(), "{word:?}");
        // SAFETY: the caller holds it.
        let is_done = unsafe { Entry::cas_last(this, word, word.unlisted()) };
        is_done.then_some(!word.is_held())
    }

    /// Lets go of a dead entry on behalf of its list, out of which the caller has taken it: it is
    /// the reaper's memory now. No CAS is needed: nobody else changes the word of a dead entry.
    ///
    /// # Safety
    /// The caller holds the list bit; the entry is vacant, and nobody keeps it.
    #[inline]
    pub unsafe fn end_dead(&self) {
        debug_assert!(self.word().phase() == Phase::Vacant && !self.word().is_held());
        self.set_free();
    }

    /// Records that the pending timer is about to be pushed at `place`. Returns `false` if the word
    /// is no longer `word`: decide again.
    ///
    /// # Safety
    /// The caller holds the list bit, `word` was read from this entry and is pending.
    #[inline]
    pub unsafe fn refile(&self, word: Word, place: Place) -> bool {
        debug_assert!(word.phase() == Phase::Pending && word.in_list(), "{word:?}");
        self.set_filed(place);
        !word.is_held() || self.cas(word, word.refiled())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::entry::Reset;
    use crate::time::{Geometry, Tick};

    fn place(deadline: u64) -> Place {
        Geometry::default().place(Tick::new(deadline), Tick::ZERO)
    }

    /// An entry as if in a list, with a handle.
    fn pending(deadline: u64) -> NonNull<Entry<u8>> {
        let entry = Entry::allocate(0);
        // SAFETY: it is new, so it is held here alone.
        unsafe { entry.as_ref().put_payload(7) };
        // SAFETY: it is held here alone, and the payload is put.
        unsafe { entry.as_ref().make_pending(Tick::new(deadline), place(deadline), 0, true) };
        entry
    }

    /// Both sides of the same entry, one after the other.
    fn on_both_sides(deadline: u64, story: impl FnOnce(NonNull<Entry<u8>>, &Entry<u8>)) {
        let entry = pending(deadline);
        // SAFETY: it is held here, by both bits.
        story(entry, unsafe { entry.as_ref() });
        // SAFETY: each story lets both sides go, and takes the payload out.
        unsafe { Entry::free(entry) };
    }

    /// The payload of a timer that ends, and whether no handle is left.
    ///
    /// # Safety
    /// As [`Entry::end`].
    unsafe fn ended(entry: NonNull<Entry<u8>>, word: Word, end: Phase) -> Option<(u8, bool)> {
        let mut taken = None;
        // SAFETY: passed on to the caller.
        let mine = unsafe { Entry::end(entry, word, end, || (), |payload| taken = Some(payload)) };
        assert_eq!(taken.is_some(), mine.is_some());
        Some((taken?, mine?))
    }

    #[test]
    fn what_was_decided_before_a_reset_is_decided_again() {
        on_both_sides(9, |this, entry| {
            let before = entry.word();
            // SAFETY: the story has both sides.
            assert_eq!(unsafe { entry.reset(Tick::new(70), Tick::ZERO) }, Reset::Moved);
            // SAFETY: the story has both sides.
            assert_eq!(unsafe { ended(this, before, Phase::Fired) }, None);
            // SAFETY: the story has both sides.
            assert!(!unsafe { entry.refile(before, place(9)) });
            let now = entry.word();
            // SAFETY: the story has both sides.
            assert!(unsafe { entry.refile(now, place(70)) });
            assert_ne!(entry.word(), now, "a handle that looked before looks again");
            assert_eq!(entry.word().deadline(), Tick::new(70));
            // SAFETY: the story has both sides.
            assert_eq!(unsafe { ended(this, entry.word(), Phase::Fired) }, Some((7, false)));
            // SAFETY: the story has both sides.
            assert!(unsafe { Entry::let_go(this) }, "the list let go first");
        });
    }

    #[test]
    fn a_vacancy_that_was_taken_again_is_not_unlinked() {
        on_both_sides(9, |this, entry| {
            // SAFETY: the story has both sides.
            assert_eq!(unsafe { entry.cancel() }, Some((7, place(9).expiration)));
            let vacant = entry.word();
            // SAFETY: the story has both sides.
            unsafe { entry.put_payload(8) };
            // SAFETY: the story has both sides.
            assert!(unsafe { Entry::take_seat(this, Tick::new(9), true) });
            // SAFETY: the story has both sides.
            assert_eq!(unsafe { Entry::unlink(this, vacant) }, None);
            // SAFETY: the story has both sides.
            assert_eq!(unsafe { entry.cancel() }.map(|(payload, _)| payload), Some(8));
            // SAFETY: the story has both sides.
            assert_eq!(unsafe { Entry::unlink(this, entry.word()) }, Some(false));
            // SAFETY: the story has both sides.
            let is_taken = unsafe { Entry::take_seat(this, Tick::new(9), true) };
            assert!(!is_taken, "it is plain memory now");
            // SAFETY: the story has both sides.
            assert!(unsafe { Entry::let_go(this) });
        });
    }

    #[test]
    fn the_last_to_let_go_has_the_memory() {
        on_both_sides(9, |this, entry| {
            // SAFETY: the story has both sides.
            assert!(!unsafe { Entry::let_go(this) }, "the list has it");
            // SAFETY: the story has both sides.
            assert_eq!(unsafe { ended(this, entry.word(), Phase::Stopped) }, Some((7, true)));
        });
        on_both_sides(9, |this, entry| {
            // SAFETY: the story has both sides.
            assert!(unsafe { entry.cancel() }.is_some());
            // SAFETY: the story has both sides.
            assert!(!unsafe { Entry::let_go(this) }, "the list has it");
            // SAFETY: the story has both sides.
            assert_eq!(unsafe { Entry::unlink(this, entry.word()) }, Some(true));
        });
    }
}
