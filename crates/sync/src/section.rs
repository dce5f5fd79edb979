//! Critical sections: stretches of code in which no foreign code may run.
//!
//! Foreign code is a callback, a destructor, a waker, a hash or a comparison that the user
//! supplies. It may call the engine again, panic, or never return. So none of it runs while a
//! thread cache is lent or a lock of ours is held.
//!
//! In debug builds each thread counts the sections that it is in, and [`assert_outside`] checks the
//! count where foreign code is about to be called. Release builds do neither. Nor do the model
//! checkers' builds, in which many threads of a model are one thread of the system.
//!
//! *Owner*: one thread. The count needs no destructor, so that it exists until the very end of the
//! thread.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::{Condvar, IS_CHECKED, Mutex, MutexGuard, panicking, wait};

const IS_WATCHED: bool = cfg!(debug_assertions) && !IS_CHECKED;

thread_local! {
    /// How many sections the thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A section that the thread is in until this is dropped.
#[derive(Debug)]
#[must_use = "the section ends when this is dropped"]
pub struct Section {
    /// It stays on its thread.
    not_send: PhantomData<*const ()>,
}

/// A lock under which no foreign code runs.
pub struct QuietMutex<T>(Mutex<T>);

/// The guard of a [`QuietMutex`].
pub struct Quiet<'a, T> {
    guard: MutexGuard<'a, T>,
    section: Section,
}

/// Asserts, in debug builds, that foreign code may run here.
#[inline]
#[track_caller]
pub fn assert_outside() {
    if IS_WATCHED && !panicking() {
        assert!(DEPTH.get() == 0, "foreign code is about to run in a critical section");
    }
}

// === impl Section ===

impl Section {
    /// Enters a section.
    #[inline]
    pub fn enter() -> Section {
        if IS_WATCHED {
            DEPTH.set(DEPTH.get() + 1);
        }
        Section { not_send: PhantomData }
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        if IS_WATCHED {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
}

// === impl QuietMutex ===

impl<T> QuietMutex<T> {
    /// An unlocked mutex around `value`.
    pub fn new(value: T) -> QuietMutex<T> {
        QuietMutex(Mutex::new(value))
    }

    /// Takes the lock; waits while another thread holds it.
    #[cfg_attr(coherence, track_caller)]
    pub fn lock(&self) -> Quiet<'_, T> {
        let guard = self.0.lock().expect("nothing panics under this lock");
        Quiet { guard, section: Section::enter() }
    }

    /// Releases the lock, sleeps until `bell` is notified, and takes the lock again: see [`wait`].
    pub fn wait<'a>(&'a self, bell: &Condvar, inside: Quiet<'a, T>) -> Quiet<'a, T> {
        let Quiet { guard, section } = inside;
        Quiet { guard: wait(bell, &self.0, guard), section }
    }
}

debug! { impl[T] QuietMutex[T] {} }

// === impl Quiet ===

impl<T> Deref for Quiet<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Quiet<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

debug! { impl[T] Quiet['_, T] { section } }

#[cfg(all(test, debug_assertions, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn foreign_code_is_caught_in_a_section_and_nowhere_else() {
        assert_outside();
        let lock = QuietMutex::new(7);
        let (outer, inner) = (Section::enter(), lock.lock());
        assert!(catch_unwind(assert_outside).is_err());
        drop(outer);
        assert!(catch_unwind(assert_outside).is_err(), "one lock is still held");
        assert_eq!(*inner, 7);
        drop(inner);
        assert_outside();
    }

    #[test]
    fn a_section_that_is_left_by_a_panic_is_left() {
        let panicked = catch_unwind(|| {
            let _section = Section::enter();
            panic!("planned");
        });
        assert!(panicked.is_err());
        assert_outside();
    }
}
