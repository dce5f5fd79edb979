//! A value that many threads use, and that one of them may take away before the memory around it
//! can go: what an engine that has ended keeps open need not stay open for those who still refer to
//! it.
//!
//! *Owner*: any thread uses it and closes it.
//!
//! *Invariants*: the word has the number of uses under way, and whether it was closed. No use
//! begins once it was closed. The value is dropped once: by the thread that closes it, or, if a use
//! is under way then, by the last of those; or with the closable, if it was never closed.
//!
//! *Orderings*: CLOSABLE. A use ends with a Release, and the thread that drops the value has
//! acquired the ends of all uses, which are RMWs of one word.
//!
//! *Tested by*: the unit test below, `loom-tests/tests/closable.rs`, `tests/alone/boottime.rs`.

use std::mem::ManuallyDrop;

use crate::{AtomicUsize, Ordering, UnsafeCell};

/// A value that can be taken away from those who use it.
pub struct Closable<V> {
    word: AtomicUsize,
    value: UnsafeCell<ManuallyDrop<V>>,
}

/// In the word: it was closed. The uses under way are counted above that.
const CLOSED: usize = 1;
const USE: usize = 2;

/// Ends a use when it is dropped.
struct Use<'a, V>(&'a Closable<V>);

// SAFETY: the value goes along.
unsafe impl<V: Send> Send for Closable<V> {}
// SAFETY: users share the value (`V: Sync`), and one thread drops it (`V: Send`).
unsafe impl<V: Send + Sync> Sync for Closable<V> {}

// === impl Closable ===

impl<V> Closable<V> {
    /// A value that is open.
    pub fn new(value: V) -> Closable<V> {
        let value = UnsafeCell::new(ManuallyDrop::new(value));
        Closable { word: AtomicUsize::new(0), value }
    }

    /// Calls `f` with the value, which stays meanwhile. `None`: it was closed.
    pub fn with<R>(&self, f: impl FnOnce(&V) -> R) -> Option<R> {
        let begin = |word: usize| (word & CLOSED == 0).then_some(word + USE);
        // ORDER(CLOSABLE): Relaxed - a use that is counted before the close is one that the close
        // sees; its end publishes what it did.
        self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begin).ok()?;
        let _use = Use(self);
        // SAFETY: it is not dropped before the last use that was counted has ended.
        Some(self.value.with(|value| f(unsafe { &*value })))
    }

    /// Closes it: the value is dropped here, or when the last use that is under way ends.
    pub fn close(&self) {
        // ORDER(CLOSABLE): Acquire - pairs with the Release in `Use::drop`: the uses are over.
        if self.word.fetch_or(CLOSED, Ordering::Acquire) == 0 {
            // SAFETY: this call closed it, and no use was under way.
            unsafe { self.drop_value() };
        }
    }

    /// # Safety
    /// It is closed, no use is under way, and this is called once.
    unsafe fn drop_value(&self) {
        // SAFETY: guaranteed by the caller.
        self.value.with_mut(|value| unsafe { ManuallyDrop::drop(&mut *value) });
    }
}

impl<V> Drop for Use<'_, V> {
    fn drop(&mut self) {
        // ORDER(CLOSABLE): AcqRel - Release pairs with the Acquire of the thread that drops the
        // value: this use. Acquire: if that is this thread, with the Releases of the other uses.
        if self.0.word.fetch_sub(USE, Ordering::AcqRel) == USE | CLOSED {
            // SAFETY: it is closed, and this was the last use.
            unsafe { self.0.drop_value() };
        }
    }
}

impl<V> Drop for Closable<V> {
    fn drop(&mut self) {
        // ORDER(CLOSABLE): Relaxed - this is the only one left, and comes after all uses.
        if self.word.load(Ordering::Relaxed) & CLOSED == 0 {
            // SAFETY: nobody uses it, and it was not dropped before.
            unsafe { self.drop_value() };
        }
    }
}

debug! { impl[V] Closable[V] {} }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::Arc;

    #[test]
    fn a_value_that_is_closed_in_the_middle_of_a_use_stays_until_its_end() {
        let token = Arc::new(7);
        let closable = Closable::new(token.clone());
        let seen = closable.with(|value| {
            closable.close();
            assert_eq!(Arc::strong_count(&token), 2);
            assert!(closable.with(|_| ()).is_none(), "no other use begins");
            **value
        });
        assert_eq!((seen, Arc::strong_count(&token)), (Some(7), 1));
        closable.close();
        drop(closable);
        drop(Closable::new(token.clone()));
        assert_eq!(Arc::strong_count(&token), 1);
    }
}
