//! The holder's side of an entry: the handle of a timer, or the producer that keeps a seat.
//!
//! *Owner*: the thread that has the handle or the seat. Each operation is one CAS of the state
//! word. It is retried only if the reaper re-filed the entry in between, which happens once per
//! level.
//!
//! Where another thread may free the entry as soon as an operation has succeeded, the operation is
//! called by the entry's address: a reference to the entry would last until it returns.
//!
//! *Orderings*: CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE, WAKER. Every CAS is AcqRel: the release
//! half publishes what this thread wrote (a payload), and the acquire half lets the winner see what
//! the previous one wrote.

use std::ptr::NonNull;

use crate::sync::{AtomicU64, Ordering};
use crate::time::Tick;

use super::{Entry, Phase, Word};

/// The outcome of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The timer is due at the new time and at no other.
    Moved,
    /// The new time lies before the bucket opens, or the bucket is due: the timer needs another
    /// entry.
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

    /// Moves the deadline, if the entry's bucket opens early enough, and after `due`: a timer that
    /// stayed in a bucket which is due would wait for what is due in there before it.
    ///
    /// # Safety
    /// The caller has the handle.
    #[inline]
    pub unsafe fn reset(&self, deadline: Tick, due: Tick) -> Reset {
        loop {
            let word = self.word();
            if !word.is_waiting() {
                return Reset::Gone;
            }
            let opens = self.filed().expiration;
            if deadline < opens || opens <= due {
                return Reset::Elsewhere;
            }
            if self.cas(word, word.with_deadline(deadline)) {
                return Reset::Moved;
            }
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
        // SAFETY: it keeps the seat; the timer was filed here for this deadline, and the payload
        // is put.
        match unsafe { Entry::take_seat(NonNull::from(self), deadline, true) } {
            true => Exchange::Done(old),
            false => Exchange::Unlinked(old, deadline),
        }
    }

    /// Takes the seat for a timer whose payload was already put. Returns `false` if the reaper
    /// unlinked the entry first: it is then the caller's plain memory, with the payload in it.
    ///
    /// # Safety
    /// The caller keeps the seat, `deadline` is not before its bucket opens, and the payload was
    /// put. If this returns `true` and `held` is `false`, it does not use the entry again.
    #[inline]
    pub unsafe fn take_seat(this: NonNull<Entry<T>>, deadline: Tick, held: bool) -> bool {
        // SAFETY: the caller keeps the seat.
        let word = unsafe { this.as_ref() }.word();
        debug_assert_eq!(word.phase(), Phase::Vacant, "a kept seat is vacant");
        debug_assert!(word.is_held(), "a kept seat is held");
        // SAFETY: the caller keeps the seat.
        word.in_list() && unsafe { Entry::cas_last(this, word, word.pending(deadline, held)) }
    }

    /// Lets go of a seat, or of a handle whose timer is not stranded. Returns `true` if the list
    /// had already let go: the entry is then the caller's plain memory.
    ///
    /// # Safety
    /// The caller has the handle or keeps the seat. It does not use the entry again, unless this
    /// returns `true`.
    #[inline]
    pub unsafe fn let_go(this: NonNull<Entry<T>>) -> bool {
        // SAFETY: passed on to the caller.
        let before = unsafe { Entry::unhold(this) };
        debug_assert!(before.is_none_or(|word| !word.is_stranded()), "{before:?}");
        if before.is_some() {
            // SAFETY: the list had let go, so it is the caller's.
            unsafe { this.as_ref() }.set_free();
        }
        before.is_some()
    }

    /// Lets go of the handle of any timer.
    ///
    /// # Safety
    /// The caller has the handle. It does not use the entry again, unless the entry is now its
    /// own. It takes the payload of a stranded timer by [`Entry::take_back`].
    #[inline]
    pub unsafe fn let_go_of_handle(this: NonNull<Entry<T>>) -> LetGo {
        // SAFETY: passed on to the caller.
        match unsafe { Entry::unhold(this) } {
            None => LetGo::Listed,
            Some(before) if before.is_stranded() => LetGo::Stranded,
            Some(before) => {
                // SAFETY: the list had let go, so it is the caller's.
                unsafe { this.as_ref() }.set_free();
                LetGo::Mine(before.phase() == Phase::Fired)
            }
        }
    }

    /// Clears the `held` bit. If the list had already let go, returns the word and leaves the bit.
    ///
    /// # Safety
    /// As [`Entry::let_go`].
    #[inline]
    unsafe fn unhold(this: NonNull<Entry<T>>) -> Option<Word> {
        loop {
            // SAFETY: the caller holds it.
            let word = unsafe { this.as_ref() }.word();
            debug_assert!(word.is_held(), "{word:?}");
            if !word.in_list() {
                return Some(word);
            }
            // SAFETY: the caller holds it.
            if unsafe { Entry::cas_last(this, word, word.unheld()) } {
                return None;
            }
        }
    }

    /// The CAS that decides every race.
    #[inline]
    pub(super) fn cas(&self, from: Word, to: Word) -> bool {
        exchange(&self.word, from, to)
    }

    /// The same, if another thread may free the entry as soon as it has succeeded.
    ///
    /// # Safety
    /// The caller holds the entry.
    #[inline]
    pub(super) unsafe fn cas_last(this: NonNull<Entry<T>>, from: Word, to: Word) -> bool {
        // SAFETY: the caller holds it. (Of an atomic, a reference may outlast the memory.)
        exchange(unsafe { &(*this.as_ptr()).word }, from, to)
    }
}

#[inline]
fn exchange(word: &AtomicU64, from: Word, to: Word) -> bool {
    // ORDER(CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE, WAKER): AcqRel - see the file's header.
    // Acquire on failure: a seat that could not be taken was unlinked, and the reaper's earlier
    // write to the entry (its place) comes before what the producer writes now.
    word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
}
