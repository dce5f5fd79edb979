//! The calls that the current thread is inside.
//!
//! *Owner*: one thread. The value lives in a `thread_local!` and needs no destructor, so that it
//! can be read until the very end of the thread.

use std::cell::Cell;
use std::ptr;

/// A stack of keys, in frames on the thread's own stack: no allocation, and nothing to clean up.
pub struct Nesting<K> {
    innermost: Cell<*const Frame<K>>,
}

/// A call that is under way further up the stack.
struct Frame<K> {
    key: K,
    outer: *const Frame<K>,
}

// === impl Nesting ===

impl<K> Nesting<K> {
    /// Inside no call.
    pub const fn new() -> Nesting<K> {
        Nesting { innermost: Cell::new(ptr::null()) }
    }

    /// Runs `f` as a call for `key`.
    #[inline]
    pub fn inside<R>(&self, key: K, f: impl FnOnce() -> R) -> R {
        self.inside_of(key, |_| f())
    }

    /// Runs `f` as a call for `key`, which is lent to it.
    #[inline]
    pub fn inside_of<R>(&self, key: K, f: impl FnOnce(&K) -> R) -> R {
        struct Back<'a, K>(&'a Nesting<K>, *const Frame<K>);
        impl<K> Drop for Back<'_, K> {
            fn drop(&mut self) {
                self.0.innermost.set(self.1);
            }
        }
        let frame = Frame { key, outer: self.innermost.get() };
        let _back = Back(self, frame.outer);
        self.innermost.set(&raw const frame);
        f(&frame.key)
    }

    /// Whether the thread is inside no call.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.innermost.get().is_null()
    }

    /// Whether the thread is inside a call for `key`.
    pub fn is_inside(&self, key: &K) -> bool
    where
        K: PartialEq,
    {
        self.find(|inside| inside == key, |_| ()).is_some()
    }

    /// Calls `f` with the key of the innermost call for which `is_it` returns `true`.
    pub fn find<R>(&self, is_it: impl Fn(&K) -> bool, f: impl FnOnce(&K) -> R) -> Option<R> {
        let mut frame = self.innermost.get();
        // SAFETY: the frames that can be reached belong to calls of `inside` further up this
        // thread's stack (a `Cell` keeps other threads away). Each call takes its frame out before
        // it returns, also when it unwinds.
        while let Some(this) = unsafe { frame.as_ref() } {
            if is_it(&this.key) {
                return Some(f(&this.key));
            }
            frame = this.outer;
        }
        None
    }
}

impl<K> Default for Nesting<K> {
    fn default() -> Nesting<K> {
        Nesting::new()
    }
}

debug! { impl[K] Nesting[K] {} }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_thread_is_inside_of_each_call_that_has_not_returned() {
        let nesting = Nesting::new();
        nesting.inside(1, || {
            nesting.inside(2, || {
                assert!(nesting.is_inside(&1) && nesting.is_inside(&2));
                assert!(!nesting.is_inside(&3));
            });
            assert!(nesting.is_inside(&1) && !nesting.is_inside(&2));
        });
        assert!(!nesting.is_inside(&1) && nesting.is_empty());
    }

    #[test]
    fn a_call_that_panics_is_left() {
        let nesting = Nesting::new();
        nesting.inside(1, || {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                nesting.inside(2, || panic!("planned"));
            }));
            assert!(panicked.is_err());
            assert!(nesting.is_inside(&1) && !nesting.is_inside(&2));
        });
    }
}
