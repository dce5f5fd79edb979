//! A value of the process: made when it is first needed, found without a lock, never freed.
//!
//! It is for statics that a forked child process uses. There a lock that another thread held at the
//! fork stays locked for ever, and so does a `OnceLock` that another thread was setting. A `Global`
//! has no lock: if several threads need the value first, each makes one, and one of these is kept.
//!
//! A value may belong to one process. Then a child replaces what it has inherited.
//!
//! *Owner*: any thread.
//!
//! *Invariant*: a value that was set is never freed, and is only shared from then on.
//!
//! *Tested by*: the unit tests below, `tests/alone/fork/main.rs`, `tests/alone/global_set.rs`.

// Left out of the models, as a `Counter` is.
use ::std::ptr;
use ::std::sync::atomic::{AtomicPtr, Ordering};

/// A place for a value of the process.
pub struct Global<T: 'static> {
    value: AtomicPtr<T>,
}

// === impl Global ===

impl<T: Send + Sync> Global<T> {
    /// No value yet.
    pub const fn empty() -> Global<T> {
        Global { value: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns the value, if there is one and `is_ours` accepts it.
    #[inline]
    pub fn get(&self, is_ours: impl FnOnce(&T) -> bool) -> Option<&'static T> {
        self.look(is_ours).ok()
    }

    /// As [`get`](Global::get), or else what is in the value's place.
    #[inline]
    fn look(&self, is_ours: impl FnOnce(&T) -> bool) -> Result<&'static T, *mut T> {
        // ORDER: Acquire - pairs with the CAS in `set`: the value is made.
        let known = self.value.load(Ordering::Acquire);
        // SAFETY: a value that was set is never freed, and is only shared from then on.
        unsafe { known.as_ref() }.filter(|value| is_ours(value)).ok_or(known)
    }

    /// Sets the value, unless there is one that `is_ours` accepts.
    ///
    /// # Errors
    /// There is one: returns it, and `value`.
    pub fn set(
        &self,
        value: T,
        is_ours: impl Fn(&T) -> bool,
    ) -> Result<&'static T, (&'static T, T)> {
        let value = Box::into_raw(Box::new(value));
        loop {
            let before = match self.look(&is_ours) {
                Err(before) => before,
                Ok(other) => {
                    // SAFETY: it came from `into_raw`, and nobody else has seen it.
                    return Err((other, *unsafe { Box::from_raw(value) }));
                }
            };
            // ORDER: Release - publishes the value to `look`; Relaxed: a failure looks again.
            let (to, failed) = (Ordering::Release, Ordering::Relaxed);
            if self.value.compare_exchange(before, value, to, failed).is_ok() {
                // SAFETY: it is never freed from here on, and only shared.
                return Ok(unsafe { &*value });
            }
        }
    }

    /// Returns the value, and makes one if there is none that `is_ours` accepts.
    #[inline]
    pub fn get_or_make(
        &self,
        is_ours: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> &'static T {
        let made = || self.set(make(), &is_ours).unwrap_or_else(|(other, _)| other);
        self.get(&is_ours).unwrap_or_else(made)
    }
}

debug! { impl[T] Global[T] {} }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::thread;

    #[test]
    fn of_threads_that_make_it_first_all_get_the_same() {
        static GLOBALS: [Global<String>; 100] = [const { Global::empty() }; 100];
        for global in &GLOBALS {
            let threads = [1, 2, 3]
                .map(|n| thread::spawn(move || global.get_or_make(|_| true, || n.to_string())));
            let got = threads.map(|thread| thread.join().unwrap());
            assert!(got.iter().all(|value| ptr::eq(*value, got[0])), "{got:?}");
            assert!(global.get(|_| true).is_some_and(|value| ptr::eq(value, got[0])));
        }
    }

    #[test]
    fn a_value_that_is_not_ours_is_replaced() {
        static GLOBAL: Global<u32> = Global::empty();
        assert_eq!(GLOBAL.get(|_| true), None);
        // What was replaced is not freed; here it is not lost either.
        static FIRST: std::sync::OnceLock<&u32> = std::sync::OnceLock::new();
        let first = *FIRST.get_or_init(|| GLOBAL.set(1, |_| true).unwrap());
        assert_eq!(GLOBAL.set(2, |_| true), Err((&1, 2)));
        assert_eq!(GLOBAL.get(|value| *value == 3), None);
        assert_eq!(GLOBAL.get_or_make(|value| *value == 3, || 3), &3);
        assert_eq!((GLOBAL.get(|_| true), first), (Some(&3), &1));
    }
}
