//! The reaper's side of an entry that it took out of a bucket.
//!
//! *Owner*: the one thread that runs the shard's turn; it holds the entry by the list bit.
//! Every decision is an exchange from exactly the word it was made on: the caller repeats
//! the decision when that fails. Where no handle exists nobody else can change the word, and
//! the exchange is left out.
//!
//! *Orderings*: CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE.

use crate::sync::Ordering;
use crate::time::Place;

use super::{Entry, Phase, Word};

/// A payload that left its entry.
#[derive(Debug)]
pub struct Taken<T> {
    /// The payload.
    pub payload: T,
    /// Whether the entry is the reaper's memory now (its handle is gone).
    pub mine: bool,
}

impl<T> Entry<T> {
    /// Ends a pending timer and takes its payload: `end` is `Fired` or `Stopped`. `None`: the
    /// word is no longer `word`; decide again.
    ///
    /// # Safety
    /// The caller holds the list bit, `word` was read from this entry and is pending.
    #[inline]
    pub unsafe fn end(&self, word: Word, end: Phase) -> Option<Taken<T>> {
        debug_assert!(word.phase() == Phase::Pending && word.in_list(), "{word:?}");
        if !word.owned() {
            // SAFETY: without a handle the list is the only holder: the payload is ours.
            let payload = unsafe { self.take_payload() };
            self.set_free();
            return Some(Taken { payload, mine: true });
        }
        // The list bit stays until the payload is out: a handle dropped in between must not
        // free the entry under us.
        if !self.exchange(word, word.with_phase(end)) {
            return None;
        }
        // SAFETY: this exchange left `Pending`, so the payload is ours, and once.
        let payload = unsafe { self.take_payload() };
        // ORDER(RELEASE): AcqRel - Release: our use of the entry is over before a handle sees
        // the bit cleared and reuses it; Acquire: if the handle let go first, its use is over.
        let before = Word(self.word.fetch_and(Word::KEEP_ALL_BUT_LIST, Ordering::AcqRel));
        let mine = !before.owned();
        if mine {
            self.set_free();
        }
        Some(Taken { payload, mine })
    }

    /// Lets the list go of a vacancy. `Some(true)`: nobody kept it and it is the reaper's
    /// memory now; `None`: the word is no longer `word`; decide again.
    ///
    /// # Safety
    /// The caller holds the list bit, `word` was read from this entry and is vacant.
    #[inline]
    pub unsafe fn unlink(&self, word: Word) -> Option<bool> {
        debug_assert!(word.phase() == Phase::Vacant && word.in_list(), "{word:?}");
        if !word.owned() {
            self.set_free();
            return Some(true);
        }
        self.exchange(word, word.unlisted()).then_some(false)
    }

    /// Says that the pending timer is about to be pushed at `place`. `false`: the word is no
    /// longer `word`; decide again.
    ///
    /// # Safety
    /// The caller holds the list bit, `word` was read from this entry and is pending.
    #[inline]
    pub unsafe fn refile(&self, word: Word, place: Place) -> bool {
        debug_assert!(word.phase() == Phase::Pending && word.in_list(), "{word:?}");
        self.set_filed(place);
        !word.owned() || self.exchange(word, word.refiled())
    }
}
