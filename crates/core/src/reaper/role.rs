//! A role, the right to run the turns of one shard: one thread at a time has it, until it ends.
//!
//! ```text
//!   Free   -- take ------------> Taken   -- give back --> Free, and waiters are woken
//!   Taken  -- take by another -> Awaited    (which waits; as Taken in all other respects)
//!   Free   -- end -------------> Ended
//!   Taken  -- end -------------> Ending  -- give back --> Ended
//! ```
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
//! that gave it back: the next holder sees what the last one left in hand. A thread that finds the
//! role taken sets the word to Awaited under a lock, and the thread that wakes it takes the same
//! lock first: no wake-up is lost, and nobody takes the lock if nobody waits. TAKEOVER: what others
//! see of the present holder is behind a pointer. Who looks reads it under a guard, without a lock.
//! The thread that takes the role over replaces it, and the epoch frees the one before.
//!
//! *Tested by*: `loom-tests/tests/{ending,takeover,suspended}.rs`, `tests/alone/frozen.rs`.

use crate::dispatch::{InHand, Payloads, Progress};
use crate::entry::{after_readers, read};
use crate::sync::events::{Event, reached};
use crate::sync::{AtomicPtr, AtomicU32, Condvar, Mutex, MutexGuard, Ordering, UnsafeCell, wait};
use crate::time::Clock;

use super::stuck::{Found, Look};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and other threads wait until that changes.
const AWAITED: u32 = 2;
/// Taken, and the holder has to end it.
const ENDING: u32 = 3;
const ENDED: u32 = 4;

/// The state of a role, and the payloads that its turns hand over.
pub(super) struct RoleWord<T> {
    state: AtomicU32,
    /// `None` while the role is taken: the holder has it. Kept from turn to turn for its memory. A
    /// stop may leave payloads in it.
    in_hand: UnsafeCell<Option<InHand<T>>>,
    /// What others see of the holder, in a box. It is replaced under the lock.
    look: AtomicPtr<Look<T>>,
    /// Threads that wait for the role, or take it over, have it. Nobody does who only looks.
    // LOCK(ROLE): engine: progress, take_over, wake; stopper: progress, take_over, wake; caller:
    // wait_and_take, progress, take_over, wake; through: lock.
    acting: Mutex<()>,
    changed: Condvar,
}

// SAFETY: only the holder of the role touches what it has in hand, which the CASes of the state
// order; payloads may be sent. Everything else may be shared.
unsafe impl<T: Send> Sync for RoleWord<T> {}

impl<T> RoleWord<T> {
    pub(super) fn new() -> RoleWord<T> {
        let in_hand = InHand::default();
        RoleWord {
            state: AtomicU32::new(FREE),
            look: AtomicPtr::new(Box::into_raw(Box::new(Look::of(&in_hand)))),
            in_hand: UnsafeCell::new(Some(in_hand)),
            acting: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Takes the role; waits while another thread holds it. Returns `None` if the role has ended,
    /// or is about to end.
    #[inline]
    pub(super) fn take(&self) -> Option<InHand<T>> {
        let is_taken = self.cas(FREE, TAKEN).is_ok() || self.wait_and_take();
        // SAFETY: this is the holder now.
        is_taken.then(|| unsafe { self.take_in_hand() })
    }

    /// As `take`, but does not wait: `None` as well if another thread holds the role.
    #[inline]
    pub(super) fn try_take(&self) -> Option<InHand<T>> {
        let is_taken = self.cas(FREE, TAKEN).is_ok();
        // SAFETY: this is the holder now.
        is_taken.then(|| unsafe { self.take_in_hand() })
    }

    #[cold]
    fn wait_and_take(&self) -> bool {
        reached(Event::RoleAwaited);
        let mut guard = self.lock();
        loop {
            match self.cas(FREE, TAKEN) {
                Ok(_) => return true,
                Err(ENDING | ENDED) => return false,
                Err(TAKEN) => _ = self.cas(TAKEN, AWAITED),
                Err(_) => guard = wait(&self.changed, &self.acting, guard),
            }
        }
    }

    /// How far the hand-over of the present holder has come. `None`: the holder does not hand over,
    /// or there is none.
    pub(super) fn progress(&self) -> Option<Progress> {
        self.present(&self.lock()).line.progress()
    }

    /// Looks at the holder; a task may take as long as `after_ns`, by `clock`. For any thread: it
    /// takes no lock. Also returns since when payloads in hand wait at least.
    pub(super) fn look(&self, clock: &Clock, after_ns: u64) -> (Found, Option<u64>) {
        let _reader = read();
        // ORDER(TAKEOVER): Acquire - pairs with the swap in `take_over`, which publishes it.
        let look = self.look.load(Ordering::Acquire);
        // SAFETY: when it is replaced, it is freed after all readers, and this is one.
        let look = unsafe { &*look };
        (look.at(clock, after_ns), look.line.unclaimed_since_ns())
    }

    /// What others see of the present holder. Nobody replaces it while the lock is held.
    fn present<'a>(&'a self, _lock: &'a MutexGuard<'_, ()>) -> &'a Look<T> {
        // ORDER(TAKEOVER): Relaxed - ordered by the lock.
        let look = self.look.load(Ordering::Relaxed);
        // SAFETY: it is replaced under the lock.
        unsafe { &*look }
    }

    /// Takes the role from its holder, if that one has not come any further than `progress`, and
    /// calls `lost` before the holder can learn that. Returns the payloads that it had still in
    /// hand.
    pub(super) fn take_over(&self, progress: Progress, lost: impl FnOnce()) -> Option<InHand<T>> {
        let lock = self.lock();
        let Some(in_hand) = self.present(&lock).line.take_over(progress, lost) else {
            reached(Event::TakeOverLate);
            return None;
        };
        reached(Event::TookOver);
        let look = Box::into_raw(Box::new(Look::of(&in_hand)));
        // ORDER(TAKEOVER): Release - pairs with the Acquire in `look`.
        let before = self.look.swap(look, Ordering::Release);
        drop(lock);
        // SAFETY: it came from a box, and readers that come from now on find the new one. Its line
        // was taken over, so no payload is left there whose end would run the user's code.
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
        if self.cas(TAKEN, FREE).is_ok() {
            return None;
        }
        // SAFETY: as the caller promises.
        unsafe { self.give_back_to_others() }
    }

    /// # Safety
    /// As for `give_back`.
    #[cold]
    unsafe fn give_back_to_others(&self) -> Option<Payloads<T>> {
        if self.cas(AWAITED, FREE).is_ok() {
            self.wake();
            return None;
        }
        // SAFETY: the caller holds the role. It is ending, so nobody takes it any more.
        let mut in_hand = unsafe { self.take_in_hand() };
        let before = self.cas(ENDING, ENDED);
        reached(Event::RoleEnded);
        debug_assert_eq!(before, Ok(ENDING), "a role that is taken ends but by its holder");
        Some(in_hand.take())
    }

    /// Ends the role, or makes its holder end it. Returns the payloads in hand if this call ended
    /// the role.
    pub(super) fn end(&self) -> Option<Payloads<T>> {
        loop {
            if self.cas(FREE, ENDED).is_ok() {
                // SAFETY: nobody held the role, and nobody can take it any more.
                return Some(unsafe { self.take_in_hand() }.take());
            }
            if self.cas(TAKEN, ENDING).is_ok() {
                return None;
            }
            match self.cas(AWAITED, ENDING) {
                Ok(_) => {
                    self.wake();
                    reached(Event::RoleAwaitedEnd);
                    return None;
                }
                Err(ENDING | ENDED) => return None,
                // It was given back, or is awaited, since the CAS above failed.
                Err(_) => {}
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

    #[inline]
    fn cas(&self, from: u32, to: u32) -> Result<u32, u32> {
        // ORDER(STOP): AcqRel - each CAS comes after all before it: a thread that takes or ends the
        // role sees what its last holder did. Acquire: a thread that finds it ended comes after the
        // stop.
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Wakes all waiters. Each of them waits already, or looks at the state after this takes the
    /// lock.
    fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.acting.lock().expect("nothing panics under this lock")
    }
}

impl<T> Drop for RoleWord<T> {
    fn drop(&mut self) {
        // ORDER(TAKEOVER): Relaxed - nobody else has the role's word any more.
        let look = self.look.load(Ordering::Relaxed);
        // SAFETY: it came from a box, and a thread that replaced one has freed that.
        drop(unsafe { Box::from_raw(look) });
    }
}
