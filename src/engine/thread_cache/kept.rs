//! The table of a thread's caches, by engine number, and which of them it used last.
//!
//! *Owner*: one thread.
//!
//! *Invariant*: dropping a cache may run foreign code, so the thread takes it out of the table
//! first, and drops it when nothing is borrowed or lent.
//!
//! *Tested by*: here, `tests/races/engine/inside.rs`, `tests/alone/freed_early.rs`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;
use std::ptr::{self, NonNull};

use crate::dispatch::contained;

/// A `ThreadCache` with its payload type erased.
pub(super) trait AnyCache {
    fn is_stopped(&self) -> bool;
}

/// A boxed `ThreadCache`, as a pointer of which `CURRENT` may have a copy.
pub(super) struct Kept(NonNull<dyn AnyCache>);

/// All caches of a thread, by engine number.
pub(super) struct Caches {
    kept: BTreeMap<u32, Kept>,
    /// The number of stops when the thread last looked.
    stops: u64,
    /// An engine that had stopped by then, but was in use.
    left_over: Option<u32>,
}

thread_local! {
    /// The number of the engine that the thread used last, and the thread's `ThreadCache` of it.
    static CURRENT: Cell<(u32, *mut ())> = const { Cell::new(NOBODY) };
}

/// No engine has the number zero.
const NOBODY: (u32, *mut ()) = (0, ptr::null_mut());

/// Returns the thread's `ThreadCache` of the engine that it used last, if that is engine `number`.
#[inline(always)]
pub(super) fn current(number: u32) -> Option<NonNull<()>> {
    let (known, cache) = CURRENT.get();
    if known == number { NonNull::new(cache) } else { None }
}

/// The thread uses its `ThreadCache` of engine `number`.
pub(super) fn set_current(number: u32, cache: *mut ()) {
    CURRENT.set((number, cache));
}

/// Makes the thread look for its `ThreadCache` again, whichever it used last.
pub(super) fn forget_current() {
    CURRENT.set(NOBODY);
}

// === impl Caches ===

impl Caches {
    pub(super) const fn new() -> Caches {
        Caches { kept: BTreeMap::new(), stops: 0, left_over: None }
    }

    /// Returns the thread's cache of engine `number`.
    pub(super) fn get(&self, number: u32) -> Option<*mut ()> {
        self.kept.get(&number).map(Kept::as_ptr)
    }

    /// Keeps the cache of an engine of which the thread had none.
    pub(super) fn keep(&mut self, number: u32, cache: Kept) {
        if cache.is_stopped() {
            // It has stopped before the thread looked: the thread looks again.
            self.stops = self.stops.wrapping_sub(1);
        }
        let before = self.kept.insert(number, cache);
        debug_assert!(before.is_none(), "a thread has one part of each engine");
    }

    /// Takes out the cache of an engine that is gone.
    pub(super) fn take(&mut self, number: u32) -> Option<Kept> {
        self.kept.remove(&number)
    }

    /// Takes out the caches of engines that have stopped, except the one in use. `stops` is the
    /// number of stops so far; this is O(1) if that has not changed since the last call.
    pub(super) fn take_stopped(&mut self, in_use: u32, stops: u64) -> Vec<(u32, Kept)> {
        let mut over = Vec::new();
        if mem::replace(&mut self.stops, stops) != stops {
            let stopped = self.kept.iter().filter(|(_, kept)| kept.is_stopped());
            let mut numbers: Vec<u32> = stopped.map(|(number, _)| *number).collect();
            let place = numbers.iter().position(|&number| number == in_use);
            self.left_over = place.map(|place| numbers.swap_remove(place));
            over.extend(numbers.iter().filter_map(|number| self.kept.remove_entry(number)));
        } else if let Some(number) = self.left_over.take_if(|number| *number != in_use) {
            over.extend(self.kept.remove_entry(&number));
        }
        over
    }
}

// === impl Kept ===

impl Kept {
    /// Keeps a boxed `ThreadCache`.
    pub(super) fn new(cache: Box<dyn AnyCache>) -> Kept {
        // SAFETY: a box is never null.
        Kept(unsafe { NonNull::new_unchecked(Box::into_raw(cache)) })
    }

    /// Returns a pointer to the cache.
    pub(super) fn as_ptr(&self) -> *mut () {
        self.0.as_ptr().cast()
    }

    fn is_stopped(&self) -> bool {
        // SAFETY: it came from a box that lives as long as this, and nobody has it lent now (see
        // the file's invariants).
        unsafe { self.0.as_ref() }.is_stopped()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if CURRENT.get().1 == self.as_ptr() {
            forget_current();
        }
        // SAFETY: it came from a box, and `forget` has cleared the copy of the pointer.
        let cache = unsafe { Box::from_raw(self.0.as_ptr()) };
        // This may be the last reference to the engine, whose handler is then dropped as well. A
        // panic of the handler must not reach this thread, which may be ending.
        contained(|| drop(cache));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static STOPPED: Cell<&'static [u32]> = const { Cell::new(&[]) };
        static QUESTIONS: Cell<u32> = const { Cell::new(0) };
    }

    /// The cache of the engine with this number. Counts how often it is asked for its state.
    struct Part(u32);

    impl AnyCache for Part {
        fn is_stopped(&self) -> bool {
            QUESTIONS.set(QUESTIONS.get() + 1);
            STOPPED.get().contains(&self.0)
        }
    }

    #[test]
    fn a_thread_looks_for_stopped_engines_after_a_stop_and_at_no_other_time() {
        let mut caches = Caches::new();
        let part = |number| Kept::new(Box::new(Part(number)));
        (0..1000).for_each(|number| caches.keep(number, part(number)));
        QUESTIONS.take();
        let mut take = |in_use, stops| {
            let taken = caches.take_stopped(in_use, stops);
            let mut numbers: Vec<u32> = taken.iter().map(|(number, _)| *number).collect();
            numbers.sort_unstable();
            numbers
        };
        (0..1000).for_each(|in_use| assert!(take(in_use, 0).is_empty()));
        assert_eq!(QUESTIONS.take(), 0);
        STOPPED.set(&[7, 8, 9]);
        assert_eq!(take(8, 3), [7, 9], "one is in use");
        assert!(QUESTIONS.take() >= 1000);
        assert!(take(8, 3).is_empty());
        assert_eq!(take(0, 3), [8], "it goes when it is no longer");
        (0..1000).for_each(|in_use| assert!(take(in_use, 3).is_empty()));
        assert_eq!(QUESTIONS.take(), 0);
        // The thread comes back to one that has stopped.
        caches.keep(8, part(8));
        let mut take = |in_use| caches.take_stopped(in_use, 3).len();
        assert_eq!([take(8), take(8), take(0), take(0)], [0, 0, 1, 0]);
    }
}
