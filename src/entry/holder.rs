//! The side of whoever holds an entry: the handle of a timer, the producer of a seat.
//!
//! *Owner*: the thread that has the handle or the seat. Each operation is one exchange of the
//! state word; it is repeated only when the reaper re-filed the entry in between, which it does
//! once per level.
//!
//! *Orderings*: CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE. Every exchange is AcqRel: the release
//! half publishes what this thread wrote (a payload), the acquire half lets the winner see what
//! the last one wrote.

use crate::sync::Ordering;
use crate::time::Tick;

use super::{Entry, Phase, Word};

/// What became of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The timer is due at the new time and at no other.
    Moved,
    /// The new time lies before the bucket opens: it takes a fresh entry.
    TooEarly,
    /// Too late: the timer fired, or its engine stopped.
    Gone,
}

/// What became of an entry whose handle is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// A list still reaches it.
    Listed,
    /// The list had let go before: the entry is the caller's plain memory now.
    Mine,
    /// The timer is stranded: the entry is the caller's, with the payload in it.
    Stranded,
}

impl<T> Entry<T> {
    /// Cancels: the time from which on the vacant seat serves another timer. `None`: it fired, or
    /// its engine stopped; what is stranded is for [`Entry::let_go_of_handle`].
    ///
    /// The payload is the caller's, in place: to be taken or dropped, once. The owner's bit stays
    /// set: the caller is now the producer of a vacancy.
    ///
    /// # Safety
    /// The caller has the handle.
    #[inline]
    pub unsafe fn vacate(&self) -> Option<Tick> {
        loop {
            let word = self.word();
            if !word.is_waiting() {
                return None;
            }
            let opens = self.filed().expiration;
            if self.cas(word, word.with_phase(Phase::Vacant)) {
                return Some(opens);
            }
        }
    }

    /// Cancels and takes the payload: see [`Entry::vacate`].
    ///
    /// # Safety
    /// The caller has the handle.
    #[inline]
    pub unsafe fn cancel(&self) -> Option<(T, Tick)> {
        // SAFETY: the caller has the handle.
        let opens = unsafe { self.vacate() }?;
        // SAFETY: the exchange left `Pending`, so the payload is ours, and once.
        Some((unsafe { self.take_payload() }, opens))
    }

    /// Moves the deadline, if the entry's bucket opens early enough.
    ///
    /// # Safety
    /// The caller has the handle.
    #[inline]
    pub unsafe fn reset(&self, deadline: Tick) -> Reset {
        loop {
            let word = self.word();
            if !word.is_waiting() {
                return Reset::Gone;
            }
            if deadline < self.filed().expiration {
                return Reset::TooEarly;
            }
            if self.cas(word, word.with_deadline(deadline)) {
                return Reset::Moved;
            }
        }
    }

    /// Takes the seat for a timer whose payload was put already. `false`: the reaper unlinked
    /// it first, and it is the caller's plain memory now (with the payload in it).
    ///
    /// # Safety
    /// The caller keeps the seat, `deadline` is not before its bucket opens, and the payload is
    /// put.
    #[inline]
    pub unsafe fn take_seat(&self, deadline: Tick, held: bool) -> bool {
        let word = self.word();
        debug_assert_eq!(word.phase(), Phase::Vacant, "a kept seat is vacant");
        debug_assert!(word.is_held(), "a kept seat is held");
        word.in_list() && self.cas(word, word.pending(deadline, held))
    }

    /// Lets go of a seat, or of a handle whose timer is not stranded. `true`: the list had let go
    /// before, so the entry is the caller's plain memory now.
    ///
    /// # Safety
    /// The caller has the handle or keeps the seat, and uses it no more (unless `true`).
    #[inline]
    pub unsafe fn let_go(&self) -> bool {
        let before = self.unhold();
        debug_assert!(before.is_none_or(|word| !word.is_stranded()), "{before:?}");
        if before.is_some() {
            self.set_free();
        }
        before.is_some()
    }

    /// Lets go of the handle of any timer.
    ///
    /// # Safety
    /// The caller has the handle, uses it no more (unless the entry is its own), and
    /// [disarms](Entry::disarm) a stranded one.
    #[inline]
    pub unsafe fn let_go_of_handle(&self) -> LetGo {
        match self.unhold() {
            None => LetGo::Listed,
            Some(before) if before.is_stranded() => LetGo::Stranded,
            Some(_) => {
                self.set_free();
                LetGo::Mine
            }
        }
    }

    /// Clears the owner's bit. `Some`: the list had let go before, when the word was this.
    #[inline]
    fn unhold(&self) -> Option<Word> {
        loop {
            let word = self.word();
            debug_assert!(word.is_held(), "{word:?}");
            if !word.in_list() {
                return Some(word);
            }
            if self.cas(word, word.unheld()) {
                return None;
            }
        }
    }

    /// The exchange that decides every race: from exactly `from`, or not at all.
    #[inline]
    pub(super) fn cas(&self, from: Word, to: Word) -> bool {
        // ORDER(CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE): AcqRel - see the file's header. Acquire
        // where it fails: a seat that could not be taken was unlinked, and what the reaper wrote
        // to the entry before (its place) comes before what the producer writes now.
        self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
