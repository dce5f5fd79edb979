//! A value with two owners from the start: a reference count that is rarely written.
//!
//! A door's timer has two ends, the caller's (or the map's) and the engine's, which share one
//! allocation. With a plain reference count the second end costs an atomic update when it is made,
//! and each end costs one when it goes. Here the count begins at two, and an owner that finds that
//! it is alone writes nothing. That leaves one update in the life of a timer.
//!
//! *Owner*: each [`Twin`], on any thread.
//!
//! *Invariants*: the count is the number of owners. An owner that reads one is the only one, and
//! nobody else can make another: only an owner makes owners.
//!
//! *Orderings*: TWIN.
//!
//! *Tested by*: `loom-tests/tests/twin.rs`, `tests/netty_races.rs`, `tests/keyed_races.rs`.

use std::marker::PhantomData;
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;

use crate::sync::{AtomicUsize, Ordering};

/// One of the owners of a value.
pub struct Twin<V> {
    body: NonNull<Body<V>>,
    owns: PhantomData<Body<V>>,
}

struct Body<V> {
    owners: AtomicUsize,
    value: V,
}

/// No program can have so many owners without leaking them.
const TOO_MANY: usize = usize::MAX / 2;

// SAFETY: owners share the value (`V: Sync`), and the last of them drops it (`V: Send`).
unsafe impl<V: Send + Sync> Send for Twin<V> {}
// SAFETY: as above; a shared owner can be cloned.
unsafe impl<V: Send + Sync> Sync for Twin<V> {}

// === impl Twin ===

impl<V> Twin<V> {
    /// Two owners of a new value.
    #[inline]
    pub fn pair(value: V) -> [Twin<V>; 2] {
        let body = Box::new(Body { owners: AtomicUsize::new(2), value });
        let body = NonNull::from(Box::leak(body));
        [body; 2].map(|body| Twin { body, owns: PhantomData })
    }

    /// Whether both own the same value.
    #[inline]
    pub fn ptr_eq(one: &Twin<V>, other: &Twin<V>) -> bool {
        one.body == other.body
    }

    #[inline]
    fn body(&self) -> &Body<V> {
        // SAFETY: this owner keeps the body allocated.
        unsafe { self.body.as_ref() }
    }
}

impl<V> Clone for Twin<V> {
    #[inline]
    fn clone(&self) -> Twin<V> {
        // ORDER(TWIN): Relaxed - the new owner comes from this one, which keeps the body.
        if self.body().owners.fetch_add(1, Ordering::Relaxed) > TOO_MANY {
            abort();
        }
        Twin { body: self.body, owns: PhantomData }
    }
}

impl<V> Deref for Twin<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        &self.body().value
    }
}

impl<V> Drop for Twin<V> {
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

debug! { impl[V] Twin[V] {} }

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
}
