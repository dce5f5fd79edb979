//! The right to run the turns of one shard: one thread at a time has it, until it ends.
//!
//! ```text
//!   Free   -- take ------------> Taken   -- give back --> Free, and who waits is woken
//!   Taken  -- take by another -> Awaited    (and it waits; Taken in all other respects)
//!   Free   -- end -------------> Ended
//!   Taken  -- end -------------> Ending  -- give back --> Ended
//! ```
//!
//! *Owner*: the thread that took it has the queue and reads the handler; any thread ends it.
//!
//! *Invariants*: a role that has ended is never taken again. It ends once: a stopper ends a free
//! role, its holder ends a taken one.
//!
//! *Orderings*: STOP. Each exchange of the word that takes the role is Acquire and pairs with the
//! Release of the one that gave it back: the next holder sees the queue as the last one left it.
//! Who finds it taken says in the word that somebody waits, under a lock, and is woken under the
//! same lock: no wake-up is lost, and where nobody waits nobody takes the lock.
//!
//! *Tested by*: `loom-tests/tests/ending.rs`.

use std::mem;

use crate::dispatch::Queue;
use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, UnsafeCell, wait};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and others wait until that changes.
const AWAITED: u32 = 2;
/// Taken, and who has it is to end it.
const ENDING: u32 = 3;
const ENDED: u32 = 4;

/// The right to run turns, and the queue for what they hand over.
pub(super) struct Role<T> {
    state: AtomicU32,
    /// Kept from turn to turn for its memory. A stop may leave payloads in it.
    queue: UnsafeCell<Queue<T>>,
    waiting: Mutex<()>,
    changed: Condvar,
}

// SAFETY: who has the role has the queue, which the exchanges of the state order; payloads may be
// sent. Everything else may be shared.
unsafe impl<T: Send> Sync for Role<T> {}

impl<T> Role<T> {
    pub(super) fn new() -> Role<T> {
        Role {
            state: AtomicU32::new(FREE),
            queue: UnsafeCell::new(Queue::new()),
            waiting: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Takes the role; waits while somebody else has it. `false`: it has ended, or is about to.
    #[inline]
    pub(super) fn take(&self) -> bool {
        self.cas(FREE, TAKEN).is_ok() || self.wait_and_take()
    }

    #[cold]
    fn wait_and_take(&self) -> bool {
        let mut guard = self.waiting.lock().expect("nothing panics under this lock");
        loop {
            match self.cas(FREE, TAKEN) {
                Ok(_) => return true,
                Err(ENDING | ENDED) => return false,
                Err(TAKEN) => _ = self.cas(TAKEN, AWAITED),
                Err(_) => guard = wait(&self.changed, &self.waiting, guard),
            }
        }
    }

    /// The queue. Only the thread that has the role may look into it.
    #[inline]
    pub(super) fn queue(&self) -> *mut Queue<T> {
        self.queue.with_mut(|queue| queue)
    }

    /// Gives the role back. `Some`: it has ended with that, with this in hand.
    ///
    /// # Safety
    /// The caller has the role, and has it no more.
    #[inline]
    pub(super) unsafe fn give_back(&self) -> Option<Queue<T>> {
        if self.cas(TAKEN, FREE).is_ok() {
            return None;
        }
        // SAFETY: as the caller promises.
        unsafe { self.give_back_to_others() }
    }

    /// # Safety
    /// As for `give_back`.
    #[cold]
    unsafe fn give_back_to_others(&self) -> Option<Queue<T>> {
        if self.cas(AWAITED, FREE).is_ok() {
            self.wake();
            return None;
        }
        // SAFETY: the caller has the role. It is ending, so nobody takes it any more.
        let in_hand = unsafe { self.take_queue() };
        let before = self.cas(ENDING, ENDED);
        debug_assert_eq!(before, Ok(ENDING), "a role that is taken ends but by its holder");
        Some(in_hand)
    }

    /// Ends the role, or sees to it that its holder does. `Some`: it has ended just now, with this
    /// in hand.
    pub(super) fn end(&self) -> Option<Queue<T>> {
        loop {
            if self.cas(FREE, ENDED).is_ok() {
                // SAFETY: nobody had it, and nobody gets it any more.
                return Some(unsafe { self.take_queue() });
            }
            if self.cas(TAKEN, ENDING).is_ok() {
                return None;
            }
            match self.cas(AWAITED, ENDING) {
                Ok(_) => {
                    self.wake();
                    return None;
                }
                Err(ENDING | ENDED) => return None,
                // Given back, or awaited, since we looked.
                Err(_) => {}
            }
        }
    }

    /// # Safety
    /// Nobody else has the role, or gets it any more.
    unsafe fn take_queue(&self) -> Queue<T> {
        // SAFETY: as the caller promises.
        self.queue.with_mut(|queue| mem::take(unsafe { &mut *queue }))
    }

    #[inline]
    fn cas(&self, from: u32, to: u32) -> Result<u32, u32> {
        // ORDER(STOP): AcqRel - each exchange comes after all before it: who takes the role sees
        // what its last holder did, who ends it as well. Acquire: who finds it ended comes after
        // the stop.
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Wakes all who wait. They waited, or will look again, before this has the lock.
    fn wake(&self) {
        drop(self.waiting.lock().expect("nothing panics under this lock"));
        self.changed.notify_all();
    }
}
