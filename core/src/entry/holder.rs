//! The holder's side of an entry: the handle of a timer, or the producer that keeps a seat.
//!
//! *Owner*: the thread that has the handle or the seat. Each operation is one CAS of the state
//! word. It is retried only if the reaper re-filed the entry in between, which happens once per
//! level.
//!
//! *Orderings*: CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE, WAKER. Every CAS is AcqRel: the release
//! half publishes what this thread wrote (a payload), and the acquire half lets the winner see what
//! the previous one wrote.

use crate::sync::Ordering;
use crate::sync::events::{Event, reached};
use crate::time::Tick;

use super::{Entry, Phase, Word};

/// The outcome of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The timer is due at the new time and at no other.
    Moved,
    /// The new time lies before the bucket opens, or the bucket is open with a crowd in it: the
    /// timer needs another entry.
    Elsewhere,
    /// Too late: the timer fired, or its engine stopped.
    Gone,
}

/// The outcome of an exchange of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange<T> {
    /// The timer waits with the new payload, in its place. Contains the old one.
    Done(T),
    /// The owner of the shard unlinked the entry meanwhile: it is the caller's plain memory, with
    /// the new payload in it, and has to be filed anew for its deadline. Contains the old payload.
    Unlinked(T, Tick),
    /// Too late: the timer fired, or its engine stopped. Contains the new payload.
    Gone(T),
}

/// The state of an entry after its handle was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// A list still reaches it.
    Listed,
    /// The list had already let go: the entry is the caller's plain memory now. Contains whether
    /// the timer had fired.
    Mine(bool),
    /// The timer is stranded: the entry is the caller's, and the payload is still in it.
    Stranded,
}

impl<T> Entry<T> {
    /// Cancels the timer. Returns the time from which the vacant seat can serve another timer, or
    /// `None` if the timer fired, its engine stopped, or it is stranded. (A stranded timer is left
    /// to [`Entry::let_go_of_handle`].)
    ///
    /// The payload stays in place and is now the caller's, who takes or drops it once. The `held`
    /// bit stays set: the caller is now the producer of a vacancy.
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
            reached(Event::CancelLost);
        }
    }

    /// Cancels the timer and takes its payload: see [`Entry::vacate`].
    ///
    /// # Safety
    /// The caller has the handle.
    #[inline]
    pub unsafe fn cancel(&self) -> Option<(T, Tick)> {
        // SAFETY: the caller has the handle.
        let opens = unsafe { self.vacate() }?;
        // SAFETY: the CAS left `Pending`, so the payload is ours, and is taken once.
        Some((unsafe { self.take_payload() }, opens))
    }

    /// Moves the deadline, if the entry's bucket opens early enough and is not open with a crowd in
    /// it, as `is_crowded` tells of the time at which it opens.
    ///
    /// # Safety
    /// The caller has the handle.
    #[inline]
    pub unsafe fn reset(&self, deadline: Tick, is_crowded: impl Fn(Tick) -> bool) -> Reset {
        loop {
            let word = self.word();
            if !word.is_waiting() {
                return Reset::Gone;
            }
            let opens = self.filed().expiration;
            if deadline < opens || is_crowded(opens) {
                return Reset::Elsewhere;
            }
            if self.cas(word, word.with_deadline(deadline)) {
                return Reset::Moved;
            }
            reached(Event::ResetLost);
        }
    }

    /// Gives a timer that waits another payload: vacates its entry, and takes the seat again for
    /// the same deadline.
    ///
    /// # Safety
    /// The caller has the handle. After `Unlinked` it files the entry again.
    #[inline]
    pub unsafe fn exchange(&self, payload: T) -> Exchange<T> {
        // Only the handle changes it.
        let deadline = self.word().deadline();
        // SAFETY: the caller has the handle.
        let Some((old, _)) = (unsafe { self.cancel() }) else {
            return Exchange::Gone(payload);
        };
        // SAFETY: the caller is now the producer of the vacancy.
        unsafe { self.put_payload(payload) };
        // SAFETY: as above; the timer was filed here for this deadline, and the payload is put.
        match unsafe { self.take_seat(deadline, true) } {
            true => Exchange::Done(old),
            false => Exchange::Unlinked(old, deadline),
        }
    }

    /// Takes the seat for a timer whose payload was already put. Returns `false` if the reaper
    /// unlinked the entry first: it is then the caller's plain memory, with the payload in it.
    ///
    /// # Safety
    /// The caller keeps the seat, `deadline` is not before its bucket opens, and the payload was
    /// put.
    #[inline]
    pub unsafe fn take_seat(&self, deadline: Tick, held: bool) -> bool {
        let word = self.word();
        debug_assert_eq!(word.phase(), Phase::Vacant, "a kept seat is vacant");
        debug_assert!(word.is_held(), "a kept seat is held");
        word.in_list() && self.cas(word, word.pending(deadline, held))
    }

    /// Lets go of a seat, or of a handle whose timer is not stranded. Returns `true` if the list
    /// had already let go: the entry is then the caller's plain memory.
    ///
    /// # Safety
    /// The caller has the handle or keeps the seat. It does not use the entry again, unless this
    /// returns `true`.
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
    /// The caller has the handle. It does not use the entry again, unless the entry is now its
    /// own. It takes the payload of a stranded timer by [`Entry::take_back`].
    #[inline]
    pub unsafe fn let_go_of_handle(&self) -> LetGo {
        match self.unhold() {
            None => LetGo::Listed,
            Some(before) if before.is_stranded() => LetGo::Stranded,
            Some(before) => {
                self.set_free();
                LetGo::Mine(before.phase() == Phase::Fired)
            }
        }
    }

    /// Clears the `held` bit. If the list had already let go, returns the word and leaves the bit.
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
            reached(Event::LetGoLost);
        }
    }

    /// The CAS that decides every race.
    #[inline]
    pub(super) fn cas(&self, from: Word, to: Word) -> bool {
        // ORDER(CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE, WAKER): AcqRel - see the file's header.
        // Acquire on failure: a seat that could not be taken was unlinked, and the reaper's earlier
        // write to the entry (its place) comes before what the producer writes now.
        self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
