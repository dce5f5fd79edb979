//! Calls to the user's code, which may panic.
//!
//! [`contained`] swallows a panic. [`Panics`] is for several calls, each made even if another
//! panics, and for panics that belong to the caller: the first is resumed after all calls were
//! made. The others are swallowed, and so is a panic from dropping a panic's payload.
//!
//! *Owner*: the function that makes the calls.
//!
//! *Tested by*: the unit tests below, `tests/races/engine/panics.rs`,
//! `tests/races/engine/faults.rs`, `tests/suite/keyed/panics.rs`, `tests/races/periodic/ends.rs`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::sync::{assert_outside, panicking};

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

/// As [`contained`], and calls `report` with the panic's payload.
#[track_caller]
pub fn contained_or(f: impl FnOnce(), mut report: impl FnMut(&(dyn Any + Send))) -> bool {
    assert_outside();
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| forget(panic, &mut report)).is_ok()
}

/// Calls `report` with a panic's payload, and drops it. Whatever panics meanwhile is swallowed.
// Not generic: the callers are, and are compiled for each of the user's closures.
#[cold]
fn forget(panic: Box<dyn Any + Send>, report: &mut dyn FnMut(&(dyn Any + Send))) {
    forget_if_it_panics(&mut || report(&*panic));
    let mut panic = Some(panic);
    forget_if_it_panics(&mut || drop(panic.take()));
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
fn forget_if_it_panics(f: &mut dyn FnMut()) {
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
        catch_unwind(AssertUnwindSafe(f)).map_err(|panic| self.keep(panic)).ok()
    }

    /// Keeps a panic if it is the first.
    #[cold]
    fn keep(&mut self, panic: Box<dyn Any + Send>) {
        match self.first {
            None => self.first = Some(panic),
            Some(_) => _ = contained(|| drop(panic)),
        }
    }

    /// Drops `value`.
    pub fn drop<T>(&mut self, value: T) {
        self.run(|| drop(value));
    }

    /// Resumes the first panic, if there is one. In a drop while the thread unwinds already, that
    /// would end the process: then it is swallowed.
    pub fn go_on(mut self) {
        if let Some(panic) = self.first.take_if(|_| !panicking()) {
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
