//! The right to run the turns of one shard: one thread at a time has it, until it ends.
//!
//! ```text
//!   Free   -- take ------------> Taken   -- give back --> Free, and waiters are woken
//!   Taken  -- take by another -> Awaited    (which waits; as Taken in all other respects)
//!   Free   -- end -------------> Ended
//!   Taken  -- end -------------> Ending  -- give back --> Ended
//! ```
//!
//! *Owner*: the thread that took the role has the queue and reads the handler; any thread may end
//! the role.
//!
//! *Invariants*: a role that has ended is never taken again. It ends once: a stopper ends a free
//! role, the holder ends a taken one.
//!
//! *Orderings*: STOP. The CAS that takes the role is Acquire and pairs with the Release of the CAS
//! that gave it back: the next holder sees the queue as the last one left it. A thread that finds
//! the role taken sets the word to Awaited under a lock, and the thread that wakes it takes the
//! same lock first: no wake-up is lost, and nobody takes the lock if nobody waits.
//!
//! *Tested by*: `loom-tests/tests/ending.rs`.

use std::mem;

use crate::dispatch::Queue;
use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, UnsafeCell, wait};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and other threads wait until that changes.
const AWAITED: u32 = 2;
/// Taken, and the holder has to end it.
const ENDING: u32 = 3;
const ENDED: u32 = 4;

/// The right to run turns, and the queue of payloads that they hand over.
pub(super) struct Role<T> {
    state: AtomicU32,
    /// Kept from turn to turn for its memory. A stop may leave payloads in it.
    queue: UnsafeCell<Queue<T>>,
    waiting: Mutex<()>,
    changed: Condvar,
}

// SAFETY: only the holder of the role touches the queue, which the CASes of the state order;
// payloads may be sent. Everything else may be shared.
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

    /// Takes the role; waits while another thread holds it. Returns `false` if the role has ended,
    /// or is about to end.
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

    /// The queue. Only the thread that holds the role may look into it.
    #[inline]
    pub(super) fn queue(&self) -> *mut Queue<T> {
        self.queue.with_mut(|queue| queue)
    }

    /// Gives the role back. Returns the queue, with the payloads in hand, if that ended the role.
    ///
    /// # Safety
    /// The caller holds the role, and no longer holds it afterwards.
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
        // SAFETY: the caller holds the role. It is ending, so nobody takes it any more.
        let in_hand = unsafe { self.take_queue() };
        let before = self.cas(ENDING, ENDED);
        debug_assert_eq!(before, Ok(ENDING), "a role that is taken ends but by its holder");
        Some(in_hand)
    }

    /// Ends the role, or makes its holder end it. Returns the queue, with the payloads in hand, if
    /// this call ended the role.
    pub(super) fn end(&self) -> Option<Queue<T>> {
        loop {
            if self.cas(FREE, ENDED).is_ok() {
                // SAFETY: nobody held the role, and nobody can take it any more.
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
                // It was given back, or is awaited, since the CAS above failed.
                Err(_) => {}
            }
        }
    }

    /// # Safety
    /// Nobody else holds the role, or can take it any more.
    unsafe fn take_queue(&self) -> Queue<T> {
        // SAFETY: as the caller promises.
        self.queue.with_mut(|queue| mem::take(unsafe { &mut *queue }))
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
        drop(self.waiting.lock().expect("nothing panics under this lock"));
        self.changed.notify_all();
    }
}
