//! A role, the right to run the turns of one shard: one thread at a time has it, until it ends.
//!
//! ```text
//!   Free   -- take ------------> Taken   -- give back --> Free
//!   Free   -- end -------------> Ended
//!   Taken  -- end -------------> Ending  -- give back --> Ended
//! ```
//!
//! Beside the state, the word has the number of threads that wait until another one is no longer
//! its holder. They sleep on the word, and each takes itself back from the number when it is awake.
//! Until then each thread that gives the role back or ends it wakes them, also if another one was
//! about to do so and stands still.
//!
//! While the holder hands payloads over, another thread may take the role from it: the word of the
//! payloads in hand decides (`dispatch/in_hand.rs`). The state of the role stays as it is, and the
//! new holder gives it back. The old one has nothing to give back.
//!
//! *Owner*: the thread that took the role has the payloads in hand and reads the handler; any
//! thread may end the role, or take it over.
//!
//! *Invariants*: a role that has ended is never taken again. It ends once: a stopper ends a free
//! role, the holder ends a taken one.
//!
//! *Orderings*: STOP. The CAS that takes the role is Acquire and pairs with the Release of the CAS
//! that gave it back: the next holder sees what the last one left in hand. The number and the state
//! are one word, so a thread that gives the role back finds who waits; or who is about to sleep
//! finds it given back, as does the system before it lets the thread sleep. TAKEOVER: what others
//! see of the present holder is behind a pointer. Who looks reads it under a guard, without a lock.
//! The thread that takes the role over replaces it, and the epoch frees the one before.
//!
//! *Tested by*: `loom-tests/tests/{ending,takeover,suspended}.rs`,
//! `tests/alone/{frozen,held_ring}.rs`.

use crate::dispatch::{InHand, Payloads, Progress};
use crate::entry::{after_readers, read};
use crate::os::Futex;
use crate::sync::{AtomicPtr, Mutex, MutexGuard, Ordering, UnsafeCell};
use crate::time::Clock;

use super::stuck::{Found, LastCheck};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and the holder has to end it.
const ENDING: u32 = 2;
const ENDED: u32 = 3;
/// The bits of the state.
const STATE: u32 = 3;
/// One thread that waits.
const WAITER: u32 = STATE + 1;

/// The state of a role, and the payloads that its turns hand over.
pub(super) struct RoleWord<T> {
    word: Futex,
    /// `None` while the role is taken: the holder has it. Kept from turn to turn for its memory. A
    /// stop may leave payloads in it.
    in_hand: UnsafeCell<Option<InHand<T>>>,
    /// What others see of the holder, in a box. It is replaced under the lock.
    last_check: AtomicPtr<LastCheck<T>>,
    /// Threads that take the role over have it. Nobody does who only looks.
    // LOCK(ROLE): engine: progress, take_over; stopper: progress, take_over; caller: progress,
    // take_over; through: lock.
    acting: Mutex<()>,
}

// SAFETY: only the holder of the role touches what it has in hand, which the CASes of the state
// order; payloads may be sent. Everything else may be shared.
unsafe impl<T: Send> Sync for RoleWord<T> {}

impl<T> RoleWord<T> {
    pub(super) fn new() -> RoleWord<T> {
        let in_hand = InHand::default();
        RoleWord {
            word: Futex::default(),
            last_check: AtomicPtr::new(Box::into_raw(Box::new(LastCheck::of(&in_hand)))),
            in_hand: UnsafeCell::new(Some(in_hand)),
            acting: Mutex::new(()),
        }
    }

    /// Takes the role; waits while another thread holds it. Returns `None` if the role has ended,
    /// or is about to end.
    #[inline]
    pub(super) fn take(&self) -> Option<InHand<T>> {
        let is_taken = self.change(FREE, TAKEN).is_ok() || self.wait_and_take();
        // SAFETY: this is the holder now.
        is_taken.then(|| unsafe { self.take_in_hand() })
    }

    /// As `take`, but does not wait: `None` as well if another thread holds the role.
    #[inline]
    pub(super) fn try_take(&self) -> Option<InHand<T>> {
        let is_taken = self.change(FREE, TAKEN).is_ok();
        // SAFETY: this is the holder now.
        is_taken.then(|| unsafe { self.take_in_hand() })
    }

    #[cold]
    fn wait_and_take(&self) -> bool {
        self.word.enter();
        // ORDER(STOP): Release - pairs with the Acquire of a CAS that finds that a thread waits:
        // whom `os/parking.rs` wakes is known.
        self.word.word().fetch_add(WAITER, Ordering::Release);
        let is_taken = loop {
            match self.change(FREE, TAKEN) {
                Ok(_) => break true,
                Err(word) if word & STATE == TAKEN => self.word.wait(word, None),
                Err(_) => break false,
            }
        };
        // ORDER: Relaxed - it is awake, and nothing hangs on that.
        self.word.word().fetch_sub(WAITER, Ordering::Relaxed);
        is_taken
    }

    /// How far the hand-over of the present holder has come. `None`: the holder does not hand over,
    /// or there is none.
    pub(super) fn progress(&self) -> Option<Progress> {
        self.present(&self.lock()).hand_over.progress()
    }

    /// Looks at the holder; a task may take as long as `after_ns`, by `clock`. For any thread: it
    /// takes no lock. Also returns since when payloads in hand wait at least.
    pub(super) fn look(&self, clock: &Clock, after_ns: u64) -> (Found, Option<u64>) {
        let _reader = read();
        // ORDER(TAKEOVER): Acquire - pairs with the swap in `take_over`, which publishes it.
        let look = self.last_check.load(Ordering::Acquire);
        // SAFETY: when it is replaced, it is freed after all readers, and this is one.
        let look = unsafe { &*look };
        (look.at(clock, after_ns), look.hand_over.unclaimed_since_ns())
    }

    /// What others see of the present holder. Nobody replaces it while the lock is held.
    fn present<'a>(&'a self, _lock: &'a MutexGuard<'_, ()>) -> &'a LastCheck<T> {
        // ORDER(TAKEOVER): Relaxed - ordered by the lock.
        let look = self.last_check.load(Ordering::Relaxed);
        // SAFETY: it is replaced under the lock.
        unsafe { &*look }
    }

    /// Takes the role from its holder, if that one has not come any further than `progress`, and
    /// calls `lost` before the holder can learn that. Returns the payloads that it had still in
    /// hand.
    pub(super) fn take_over(&self, progress: Progress, lost: impl FnOnce()) -> Option<InHand<T>> {
        let lock = self.lock();
        let in_hand = self.present(&lock).hand_over.take_over(progress, lost)?;
        let look = Box::into_raw(Box::new(LastCheck::of(&in_hand)));
        // ORDER(TAKEOVER): Release - pairs with the Acquire in `look`.
        let before = self.last_check.swap(look, Ordering::Release);
        drop(lock);
        // SAFETY: it came from a box, and readers that come from now on find the new one. Its
        // hand-over was taken over, so no payload is left there whose end would run the user's
        // code.
        unsafe { after_readers(move || drop(Box::from_raw(before))) };
        Some(in_hand)
    }

    /// Gives the role back. Returns the payloads in hand if that ended the role.
    ///
    /// # Safety
    /// The caller holds the role, and no longer holds it afterwards. `in_hand` is what it got with
    /// the role.
    #[inline]
    pub(super) unsafe fn give_back(&self, in_hand: InHand<T>) -> Option<Payloads<T>> {
        // SAFETY: the caller holds the role.
        self.in_hand.with_mut(|slot| unsafe { *slot = Some(in_hand) });
        if let Ok(before) = self.change(TAKEN, FREE) {
            self.wake_waiters(before);
            return None;
        }
        // SAFETY: the caller holds the role. It is ending, so nobody takes it any more.
        Some(unsafe { self.end_mine() })
    }

    /// # Safety
    /// The caller holds the role, which is ending.
    #[cold]
    unsafe fn end_mine(&self) -> Payloads<T> {
        // SAFETY: the caller holds the role, and nobody takes it any more.
        let mut in_hand = unsafe { self.take_in_hand() };
        let before = self.change(ENDING, ENDED);
        debug_assert!(before.is_ok(), "a role that is taken ends but by its holder");
        in_hand.take_payloads()
    }

    /// Ends the role, or makes its holder end it. Returns the payloads in hand if this call ended
    /// the role.
    pub(super) fn end(&self) -> Option<Payloads<T>> {
        loop {
            if let Ok(before) = self.change(FREE, ENDED) {
                self.wake_waiters(before);
                // SAFETY: nobody held the role, and nobody can take it any more.
                return Some(unsafe { self.take_in_hand() }.take_payloads());
            }
            match self.change(TAKEN, ENDING) {
                Ok(before) => {
                    self.wake_waiters(before);
                    return None;
                }
                // It was given back since the CAS above failed.
                Err(word) if word & STATE == FREE => {}
                Err(_) => return None,
            }
        }
    }

    /// # Safety
    /// The caller holds the role, or nobody does and nobody can take it any more; and what was in
    /// hand has not been taken since it was given back.
    #[inline]
    unsafe fn take_in_hand(&self) -> InHand<T> {
        // SAFETY: as the caller promises.
        let in_hand = self.in_hand.with_mut(|slot| unsafe { (*slot).take() });
        in_hand.expect("it is there while nobody holds the role")
    }

    /// Changes the state, and leaves the number of waiters. Returns the word that it changed, or
    /// the one that it found in another state.
    #[inline]
    fn change(&self, from: u32, to: u32) -> Result<u32, u32> {
        let mut word = from;
        loop {
            let changed = word - from + to;
            match self.word.word().compare_exchange(
                word,
                changed,
                // ORDER(STOP): AcqRel - each CAS comes after all before it: a thread that takes or
                // ends the role sees what its last holder did. Acquire: a thread that finds it
                // ended comes after the stop.
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(before) => return Ok(before),
                Err(now) if now & STATE != from => return Err(now),
                Err(now) => word = now,
            }
        }
    }

    /// Wakes those who waited when the word was `before` it was changed.
    #[inline]
    fn wake_waiters(&self, before: u32) {
        if before >= WAITER {
            self.word.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.acting.lock().expect("nothing panics under this lock")
    }
}

impl<T> Drop for RoleWord<T> {
    fn drop(&mut self) {
        // ORDER(TAKEOVER): Relaxed - nobody else has the role's word any more.
        let look = self.last_check.load(Ordering::Relaxed);
        // SAFETY: it came from a box, and a thread that replaced one has freed that.
        drop(unsafe { Box::from_raw(look) });
    }
}
