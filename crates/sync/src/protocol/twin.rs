//! A value with two owners from the start: a reference count that is rarely written.
//!
//! The timer of a higher-level API has two ends, the caller's (or the map's) and the engine's,
//! which share one allocation. With a plain reference count the second end costs an atomic update
//! when it is made, and each end costs one when it goes. Here the count begins at two, and an owner
//! that finds that it is alone writes nothing. That leaves one update in the life of a timer, and
//! none where one thread has both ends in the end ([`Twin::drop_both`]).
//!
//! One of the owners may be the [`Main`] one. It alone has a second value, its *own*, which it
//! takes along or drops when it goes, however many others there are.
//!
//! *Owner*: each [`Twin`] and the [`Main`], on any thread.
//!
//! *Invariants*
//! - The count is the number of owners. An owner that reads one is the only one, and nobody else
//!   can make another: only an owner makes owners.
//! - There is at most one `Main` of a body, and none after it has gone. Only through it is the own
//!   value reached, so `&mut Main` is exclusive access to that.
//!
//! *Orderings*: TWIN.
//!
//! *Tested by*: `loom-tests/tests/twin.rs`, `tests/races/keyed/races.rs`.

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, forget};
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;

use crate::{AtomicUsize, Ordering, UnsafeCell, prefetch};

/// One of the owners of a value.
pub struct Twin<V, O = ()> {
    body: NonNull<Body<V, O>>,
    owns: PhantomData<V>,
}

/// The owner of a value that alone has a value of its own beside it.
pub struct Main<V, O> {
    twin: Twin<V, O>,
    has: PhantomData<O>,
}

struct Body<V, O> {
    owners: AtomicUsize,
    value: V,
    /// Initialized as long as there is a `Main`.
    own: UnsafeCell<ManuallyDrop<O>>,
}

/// No program can have so many owners without leaking them.
const TOO_MANY: usize = usize::MAX / 2;

// SAFETY: owners share the value (`V: Sync`), and the last of them drops it (`V: Send`). They do
// not reach the own value.
unsafe impl<V: Send + Sync, O> Send for Twin<V, O> {}
// SAFETY: as above; a shared owner can be cloned.
unsafe impl<V: Send + Sync, O> Sync for Twin<V, O> {}

// SAFETY: as a twin; and the own value goes along.
unsafe impl<V: Send + Sync, O: Send> Send for Main<V, O> {}
// SAFETY: as a twin; and a shared reference gives a shared reference to the own value.
unsafe impl<V: Send + Sync, O: Sync> Sync for Main<V, O> {}

// === impl Twin ===

impl<V> Twin<V> {
    /// Two owners of a new value.
    #[inline]
    pub fn pair(value: V) -> [Twin<V>; 2] {
        let (main, twin) = Main::pair(value, ());
        [main.split().1, twin]
    }
}

impl<V, O> Twin<V, O> {
    /// Whether both own the same value.
    #[inline]
    pub fn ptr_eq(one: &Twin<V, O>, other: &Twin<V, O>) -> bool {
        one.body == other.body
    }

    /// Where the value lies, as long as it has an owner.
    #[inline]
    pub fn addr(this: &Twin<V, O>) -> usize {
        this.body.addr().get()
    }

    /// Drops two owners at once. If they are the only owners of one value, no atomic is written.
    #[inline]
    pub fn drop_both(one: Twin<V, O>, other: Twin<V, O>) {
        // ORDER(TWIN): Acquire - pairs with the Release of those that have gone: these two are the
        // only ones.
        if one.body == other.body && one.body().owners.load(Ordering::Acquire) == 2 {
            forget(other);
            // SAFETY: there was one owner besides this, which has just gone.
            unsafe { one.free() };
        }
    }

    #[inline]
    fn body(&self) -> &Body<V, O> {
        // SAFETY: this owner keeps the body allocated.
        unsafe { self.body.as_ref() }
    }

    /// Drops the value, without a look at the count.
    ///
    /// # Safety
    /// No other owner is left.
    #[inline]
    unsafe fn free(self) {
        let body = ManuallyDrop::new(self).body.as_ptr();
        // SAFETY: it came from a box, and the caller says that no other owner is left.
        drop(unsafe { Box::from_raw(body) });
    }
}

impl<V, O> Clone for Twin<V, O> {
    #[inline]
    fn clone(&self) -> Twin<V, O> {
        // ORDER(TWIN): Relaxed - the new owner comes from this one, which keeps the body.
        if self.body().owners.fetch_add(1, Ordering::Relaxed) > TOO_MANY {
            abort();
        }
        Twin { body: self.body, owns: PhantomData }
    }
}

impl<V, O> Deref for Twin<V, O> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        &self.body().value
    }
}

impl<V, O> Drop for Twin<V, O> {
    #[inline]
    fn drop(&mut self) {
        let owners = &self.body().owners;
        // ORDER(TWIN): Acquire - pairs with the Release below, of the owners that have gone: this
        // is the only one, and all that they did to the value comes before its drop.
        let is_alone = owners.load(Ordering::Acquire) == 1;
        // ORDER(TWIN): AcqRel - Release publishes what this owner did to the last one; Acquire, if
        // this is the last one, as above.
        if is_alone || owners.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: it came from a box, and no other owner is left.
            drop(unsafe { Box::from_raw(self.body.as_ptr()) });
        }
    }
}

debug! { impl[V, O] Twin[V, O] {} }

// === impl Main ===

impl<V, O> Main<V, O> {
    /// The main owner of a new value, with a value of its own, and another owner.
    #[inline]
    pub fn pair(value: V, own: O) -> (Main<V, O>, Twin<V, O>) {
        let (owners, own) = (AtomicUsize::new(2), UnsafeCell::new(ManuallyDrop::new(own)));
        let body = NonNull::from(Box::leak(Box::new(Body { owners, value, own })));
        let twin = || Twin { body, owns: PhantomData };
        (Main { twin: twin(), has: PhantomData }, twin())
    }

    /// Another owner of the value.
    #[inline]
    pub fn twin(&self) -> &Twin<V, O> {
        &self.twin
    }

    /// The own value.
    #[inline]
    pub fn own(&mut self) -> &mut O {
        // SAFETY: only the main owner reaches it, and this is borrowed exclusively.
        self.twin.body().own.with_mut(|own| unsafe { &mut **own })
    }

    /// Takes the own value out. The rest is an owner like any other.
    #[inline]
    pub fn split(self) -> (O, Twin<V, O>) {
        let main = ManuallyDrop::new(self);
        // SAFETY: only the main owner reaches it, and this one goes without a drop.
        let own = main.twin.body().own.with_mut(|own| unsafe { ManuallyDrop::take(&mut *own) });
        // SAFETY: the twin is moved out once: nothing drops `main`.
        (own, unsafe { (&raw const main.twin).read() })
    }

    /// Starts to load the body. The values are on its first two cache lines, if they are small.
    #[inline]
    pub fn prefetch(&self) {
        let body = Twin::addr(&self.twin);
        prefetch(body);
        prefetch(body.wrapping_add(64));
    }
}

impl<V, O> Deref for Main<V, O> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        &self.twin
    }
}

impl<V, O> Drop for Main<V, O> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: only the main owner reaches it, and nothing does after this. If its drop panics,
        // the twin is dropped all the same.
        self.twin.body().own.with_mut(|own| unsafe { ManuallyDrop::drop(&mut *own) });
    }
}

debug! { impl[V, O] Main[V, O] {} }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_last_owner_drops_the_value_once() {
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let value = Arc::new(());
            let [one, two] = Twin::pair(value.clone());
            assert!(Twin::ptr_eq(&one, &two));
            let mut owners = [Some(one.clone()), Some(one), Some(two)];
            for (left, owner) in order.into_iter().enumerate() {
                assert_eq!(Arc::strong_count(&value), 2, "{left} have gone");
                owners[owner] = None;
            }
            assert_eq!(Arc::strong_count(&value), 1);
        }
    }

    #[test]
    fn the_own_value_goes_with_the_main_owner() {
        let (value, own) = (Arc::new(()), Arc::new(()));
        let (main, twin) = Main::pair(value.clone(), own.clone());
        drop(main);
        assert_eq!((Arc::strong_count(&value), Arc::strong_count(&own)), (2, 1));
        drop(twin);
        assert_eq!(Arc::strong_count(&value), 1);
        let (mut main, twin) = Main::pair(value.clone(), vec![1]);
        main.own().push(2);
        let (taken, main) = main.split();
        assert!(Twin::ptr_eq(&main, &twin) && taken == [1, 2]);
        Twin::drop_both(main, twin);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn owners_of_different_values_may_go_at_once() {
        let value = Arc::new(());
        let [one, two] = [(); 2].map(|()| Twin::pair(value.clone()));
        let [[one, other_one], [two, other_two]] = [one, two];
        Twin::drop_both(one, two);
        assert_eq!(Arc::strong_count(&value), 3);
        drop((other_one, other_two));
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
