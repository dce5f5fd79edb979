//! Calls to the user's code, which may panic.
//!
//! [`contained`] swallows a panic. [`Panics`] is for several calls, each made even if another
//! panics, and for panics that belong to the caller: the first is resumed after all calls were
//! made. The others are swallowed, and so is a panic from dropping a panic's payload.
//!
//! *Owner*: the function that makes the calls.
//!
//! *Tested by*: the unit tests below, `tests/panics.rs`, `tests/faults.rs`,
//! `tests/keyed_panics.rs`, `tests/periodic_ends.rs`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::sync::assert_outside;

/// The first panic of several calls.
#[derive(Debug)]
#[must_use = "a panic goes on when it is told to"]
pub struct Panics {
    first: Option<Box<dyn Any + Send>>,
}

/// Calls `f`, which is foreign code. Returns `false` if it panicked. The panic is swallowed, even
/// if dropping its payload panics in turn.
#[track_caller]
pub fn contained(f: impl FnOnce()) -> bool {
    contained_or(f, |_| ())
}

/// As [`contained`], and calls `tell` with the panic's payload.
#[track_caller]
pub fn contained_or(f: impl FnOnce(), tell: impl FnOnce(&(dyn Any + Send))) -> bool {
    assert_outside();
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { return true };
    forget_if_it_panics(|| tell(&*panic));
    forget_if_it_panics(|| drop(panic));
    false
}

/// Drops payloads one by one: if one drop panics, the others are still dropped, and the thread
/// continues.
pub fn drop_each<T>(payloads: Vec<T>) {
    for payload in payloads {
        contained(|| drop(payload));
    }
}

/// Calls `f` and drops the payload of its panic. If that drop panics as well, the second payload
/// is leaked.
fn forget_if_it_panics(f: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { return };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(panic);
    }
}

// === impl Panics ===

impl Panics {
    /// Nothing has panicked.
    pub fn none() -> Panics {
        Panics { first: None }
    }

    /// Calls `f`. `None`: it panicked.
    pub fn run<R>(&mut self, f: impl FnOnce() -> R) -> Option<R> {
        let keep_the_first = |panic| match self.first {
            None => self.first = Some(panic),
            Some(_) => _ = contained(|| drop(panic)),
        };
        catch_unwind(AssertUnwindSafe(f)).map_err(keep_the_first).ok()
    }

    /// Drops `value`.
    pub fn drop<T>(&mut self, value: T) {
        self.run(|| drop(value));
    }

    /// Resumes the first panic, if there is one.
    pub fn go_on(mut self) {
        if let Some(panic) = self.first.take() {
            resume_unwind(panic);
        }
    }
}

impl Drop for Panics {
    /// Swallows a panic that was not resumed: the thread is unwinding from another one.
    fn drop(&mut self) {
        if let Some(panic) = self.first.take() {
            contained(|| drop(panic));
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            resume_unwind(Box::new("the end of a bomb"));
        }
    }

    fn caught<R>(f: impl FnOnce() -> R) -> &'static str {
        let panic = catch_unwind(AssertUnwindSafe(f)).err().expect("it panics");
        panic.downcast_ref::<&'static str>().copied().expect("it is a text")
    }

    #[test]
    fn the_first_panic_goes_on_when_all_is_done() {
        let mut panics = Panics::none();
        assert_eq!(panics.run(|| 7), Some(7));
        assert_eq!(panics.run(|| -> u32 { resume_unwind(Box::new("first")) }), None);
        assert_eq!(panics.run(|| -> u32 { resume_unwind(Box::new(Bomb)) }), None);
        panics.drop(Bomb);
        assert_eq!(panics.run(|| 8), Some(8));
        assert_eq!(caught(|| panics.go_on()), "first");
    }
}
