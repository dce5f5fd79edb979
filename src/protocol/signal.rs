//! The word that a sleep shares with its timer, and the waker of the waiting task.
//!
//! A signal is *armed* with a waker. Each further poll *registers* at it. It is *rung* once, at the
//! end of the timer (which fires, or is dropped by its engine). Three calls race: the poll that
//! stores another task's waker, the ring that takes the waker out, and the sleep that is dropped or
//! armed again meanwhile. No thread waits for another.
//!
//! - A poll marks the word `BUSY` while it is at the slot. A ring that finds the mark leaves the
//!   slot alone: the poll finds `OVER` when it removes its mark, and needs no waker any more.
//! - A ring that finds no mark owns the slot, takes the waker out, and sets `DONE`. From then on
//!   nothing of that timer touches the signal again, so that it can serve the next timer. An
//!   earlier timer that has not got so far keeps its signal, and the sleep takes a new one: a stale
//!   ring never ends a later timer.
//!
//! *Owner*: only the sleep calls `arm` and `register` (`&mut Sleep` ensures one call at a time),
//! and only its timer calls `ring`. The sleep calls `hush` when it has the timer's payload back.
//!
//! *Invariants*: the slot is touched by the poll that set `BUSY`, by the ring that found neither
//! `BUSY` nor `OVER`, and, once `DONE` is set, by the sleep. A waker whose `clone` or `drop` panics
//! leaves no mark behind.
//!
//! *Orderings*: WAKER. A poll that removes its mark publishes the slot to the ring. The first write
//! of a ring publishes how the timer ended to the poll that finds it; its `DONE` publishes the
//! emptied slot.
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/waker.rs`, `tests/future_races.rs`,
//! `tests/future_panics.rs`.

use std::mem;
use std::task::Waker;

use crate::sync::{AtomicU32, Ordering, UnsafeCell};

/// A poll is at the slot.
const BUSY: u32 = 1;

/// The timer has ended.
const OVER: u32 = 1 << 1;

/// The end of the timer has left the slot: only the sleep uses the signal.
const DONE: u32 = 1 << 2;

/// Brings the end of a timer to the task that waits for it.
pub struct Signal {
    word: AtomicU32,
    slot: UnsafeCell<Option<Waker>>,
}

/// The mark of a poll that is at the slot. It is removed even if the poll panics.
struct Busy<'a>(&'a Signal);

// SAFETY: the slot is touched by one thread at a time, as the header says; wakers are `Send`.
unsafe impl Send for Signal {}
// SAFETY: as above.
unsafe impl Sync for Signal {}

// === impl Signal ===

impl Signal {
    /// A signal that was never armed.
    pub fn new() -> Signal {
        Signal { word: AtomicU32::new(OVER | DONE), slot: UnsafeCell::new(None) }
    }

    /// The sleep's part: prepares for a timer that is about to be scheduled. Returns `false`, and
    /// changes nothing, if the timer before it still uses the signal.
    ///
    /// # Panics
    /// If the waker's `clone` panics, with nothing changed, or the `drop` of the waker that it
    /// replaces.
    ///
    /// # Safety
    /// The caller is the sleep, which makes one call at a time.
    pub unsafe fn arm(&self, waker: &Waker) -> bool {
        // ORDER(WAKER): Acquire - pairs with the Release of `DONE` in `ring`: the slot was left.
        if self.word.load(Ordering::Acquire) & DONE == 0 {
            return false;
        }
        // SAFETY: after `DONE` only the sleep touches the slot, and the caller is the sleep.
        let old = unsafe { self.put(waker) };
        // ORDER(WAKER): Relaxed - the new timer gets its reference after this, from this thread.
        self.word.store(0, Ordering::Relaxed);
        drop(old);
        true
    }

    /// The sleep's part: from now on the ring wakes `waker` and no other. Returns `false` if the
    /// signal has rung.
    ///
    /// # Panics
    /// If the waker's `clone` panics, or the `drop` of the waker that it replaces. The signal is
    /// intact.
    pub fn register(&self, waker: &Waker) -> bool {
        // ORDER(WAKER): Acquire - pairs with the `fetch_or` of `ring`: how the timer ended. An
        // earlier poll left the waker that is in the slot; the sleep's owner orders the polls.
        let marked =
            self.word.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Acquire).is_ok();
        if !marked {
            return false;
        }
        let busy = Busy(self);
        // SAFETY: the mark is ours.
        let old = unsafe { self.put(waker) };
        let waits = busy.take_away();
        // Wakers are dropped with nothing held, also below, where the signal has rung meanwhile.
        drop(old);
        if !waits {
            // SAFETY: the ring found the mark and left the slot to us.
            drop(unsafe { self.take() });
        }
        waits
    }

    /// The timer's part, once: it has ended. Returns the waker to be woken, if there is one. The
    /// timer does not touch the signal afterwards.
    pub fn ring(&self) -> Option<Waker> {
        // ORDER(WAKER): AcqRel - acquires the slot from the poll that removed its mark last, and
        // publishes how the timer ended to the poll that finds `OVER`.
        let before = self.word.fetch_or(OVER, Ordering::AcqRel);
        if before != 0 {
            // A poll is at the slot and will find `OVER`, or the sleep wants no ring.
            return None;
        }
        // SAFETY: there was no mark, and from now on no poll sets one: the slot is ours.
        let waker = unsafe { self.take() };
        // ORDER(WAKER): Release - pairs with the Acquire in `arm`: the slot is the sleep's again.
        self.word.store(OVER | DONE, Ordering::Release);
        waker
    }

    /// The sleep's part, when it has the timer's payload back: nobody will be woken.
    ///
    /// # Safety
    /// The caller is the sleep, which makes one call at a time, and nothing has rung or is ringing.
    pub unsafe fn hush(&self) {
        // ORDER(WAKER): Relaxed - the caller has the payload that would ring, and drops it itself.
        self.word.store(OVER | DONE, Ordering::Relaxed);
    }

    /// Puts a clone of `waker` into the slot, unless the waker there wakes the same task. Returns
    /// the waker that it replaced.
    ///
    /// # Safety
    /// The slot is the caller's.
    unsafe fn put(&self, waker: &Waker) -> Option<Waker> {
        self.slot.with_mut(|slot| {
            // SAFETY: the caller says that nobody else touches it.
            let slot = unsafe { &mut *slot };
            match slot {
                Some(known) if known.will_wake(waker) => None,
                _ => slot.replace(waker.clone()),
            }
        })
    }

    /// Empties the slot.
    ///
    /// # Safety
    /// The slot is the caller's.
    unsafe fn take(&self) -> Option<Waker> {
        // SAFETY: the caller says that nobody else touches it.
        self.slot.with_mut(|slot| unsafe { (*slot).take() })
    }
}

impl Default for Signal {
    fn default() -> Signal {
        Signal::new()
    }
}

debug! { impl[] Signal[] {} }

// === impl Busy ===

impl Busy<'_> {
    /// Ends the poll. Returns `false` if the ring came meanwhile and left the slot to the poll.
    fn take_away(self) -> bool {
        let waits = self.clear();
        mem::forget(self);
        waits
    }

    fn clear(&self) -> bool {
        let word = &self.0.word;
        // ORDER(WAKER): Release - pairs with the `fetch_or` of `ring`, which takes the waker out of
        // the slot. Acquire - where it has rung: how the timer ended.
        let waits = word.compare_exchange(BUSY, 0, Ordering::Release, Ordering::Acquire).is_ok();
        if !waits {
            // ORDER(WAKER): Relaxed - the ring is done, and only the sleep itself reads this.
            word.store(OVER | DONE, Ordering::Relaxed);
        }
        waits
    }
}

impl Drop for Busy<'_> {
    /// The waker's `clone` panicked. What was in the slot stays there.
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Task>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn task() -> (Arc<Task>, Waker) {
        let task = Arc::new(Task::default());
        (task.clone(), task.into())
    }

    /// Arms, as a sleep does.
    fn arm(signal: &Signal, waker: &Waker) -> bool {
        // SAFETY: these tests have one thread.
        unsafe { signal.arm(waker) }
    }

    /// Rings, as a timer's end does; returns whether a task was woken.
    fn ring(signal: &Signal) -> bool {
        signal.ring().map(Waker::wake).is_some()
    }

    #[test]
    fn the_waker_of_the_last_poll_is_woken_and_let_go() {
        let (signal, (a, waker_a), (b, waker_b)) = (Signal::new(), task(), task());
        assert!(arm(&signal, &waker_a) && signal.register(&waker_b));
        assert_eq!((Arc::strong_count(&a), Arc::strong_count(&b)), (2, 3));
        assert!(ring(&signal));
        assert_eq!((Arc::strong_count(&a), Arc::strong_count(&b)), (2, 2));
        assert_eq!((a.0.load(Ordering::SeqCst), b.0.load(Ordering::SeqCst)), (0, 1));
        assert!(!signal.register(&waker_a), "it is over");
    }

    #[test]
    fn a_task_that_polls_again_is_cloned_once() {
        let (signal, (task, waker)) = (Signal::new(), task());
        assert!(arm(&signal, &waker) && signal.register(&waker) && signal.register(&waker));
        assert_eq!(Arc::strong_count(&task), 3);
    }

    #[test]
    fn a_signal_serves_again_once_its_timer_has_let_go() {
        let (signal, (task, waker)) = (Signal::new(), task());
        for round in 1..=3 {
            assert!(arm(&signal, &waker));
            assert!(!arm(&signal, &waker), "a timer has it");
            assert!(ring(&signal) && !ring(&signal));
            assert_eq!(task.0.load(Ordering::SeqCst), round);
        }
    }

    #[test]
    fn a_hushed_signal_wakes_nobody_and_serves_again() {
        let (signal, (task, waker)) = (Signal::new(), task());
        assert!(arm(&signal, &waker));
        // SAFETY: nothing has rung.
        unsafe { signal.hush() };
        assert!(!ring(&signal) && arm(&signal, &waker) && ring(&signal));
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_ring_during_a_poll_is_found_by_the_poll() {
        let (signal, (task, waker)) = (Signal::new(), task());
        assert!(arm(&signal, &waker));
        signal.word.store(BUSY, Ordering::SeqCst);
        let busy = Busy(&signal);
        assert!(!ring(&signal), "the poll has the slot");
        assert!(!busy.take_away());
        assert!(!signal.register(&waker) && arm(&signal, &waker));
        assert_eq!(task.0.load(Ordering::SeqCst), 0);
    }
}
