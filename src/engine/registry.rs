//! Finds things by their engine's number: for a handle on a thread that has not used its engine
//! yet. Reading takes no lock; entries come and go by replacing the whole table. Beside that, what
//! a process knows of all its engines: how many there were, which of them are another process's,
//! and how many have stopped.
//!
//! *Owner*: any thread, at any time.

use std::any::Any;
use std::collections::BTreeMap;

use crate::entry::Published;
use crate::protocol::stops::Stops;
use crate::sync::{Arc, AtomicU32, Ordering, Weak};

/// Finds things of one kind by number. It keeps none of them alive. A registry lives for ever, in a
/// `static`, and its table is never freed.
pub(super) struct Registry {
    table: Published<Table>,
}

type Table = BTreeMap<u32, Weak<dyn Any + Send + Sync>>;

/// The cores of all engines, by engine number.
pub(super) static ENGINES: Registry = Registry::empty();

/// The number that was given out last, or the one after it.
static LAST: AtomicU32 = AtomicU32::new(0);

/// Engines up to this number belong to a process that this one was forked from.
static INHERITED: AtomicU32 = AtomicU32::new(0);

/// How many engines were told to stop.
pub(super) static STOPS: Stops = Stops::none();

/// Returns a number that no engine of this process had before: an even one for an engine of a
/// runtime, which is known from that when the engine is gone. `None`: there were 2^31 - 2 of them.
pub(super) fn next_number(is_of_runtime: bool) -> Option<u32> {
    // ORDER: Relaxed - the number publishes nothing else.
    LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(last + 2).filter(|next| *next < ENDED)
    })
    .ok()
    .map(|last| last + 1 + u32::from(is_of_runtime))
}

/// Whether an engine was built on a runtime.
#[cfg(feature = "tokio")]
pub(super) fn is_of_runtime(number: u32) -> bool {
    number % 2 == 0
}

/// Whether an engine belongs to a process that this one was forked from: its threads do not exist
/// here, and may hold its locks.
#[inline]
pub(super) fn is_inherited(number: u32) -> bool {
    // ORDER: Relaxed - it is written before the child has a second thread.
    number <= INHERITED.load(Ordering::Relaxed)
}

/// No engine has this number.
pub(super) const NONE: u32 = 0;

/// As the number of an engine of a runtime that is gone. No engine has it.
pub(super) const ENDED: u32 = u32::MAX - 1;

/// Whether this process was forked from one that had engines.
#[cfg(feature = "tokio")]
pub(super) fn has_parent() -> bool {
    // ORDER: Relaxed - it is written before a child has a second thread.
    INHERITED.load(Ordering::Relaxed) > 0
}

/// This process was just forked from another one, whose engines all these are.
pub(super) fn inherit() {
    // ORDER: Relaxed - a child has one thread yet; a later number went to a thread that does not
    // exist here.
    INHERITED.store(LAST.load(Ordering::Relaxed), Ordering::Relaxed);
}

// === impl Registry ===

impl Registry {
    /// Makes an empty registry.
    pub(super) const fn empty() -> Registry {
        // SAFETY: a table holds numbers and weak references, and dropping those frees at most the
        // memory of things that were dropped before.
        Registry { table: unsafe { Published::empty() } }
    }

    /// Enters a thing under a number that nothing here has yet. O(n).
    pub(super) fn enter<T: Any + Send + Sync>(&self, number: u32, thing: &Arc<T>) {
        let thing: Arc<dyn Any + Send + Sync> = thing.clone();
        let thing = Arc::downgrade(&thing);
        self.table.update(|table| {
            let mut table = table.cloned().unwrap_or_default();
            table.insert(number, thing.clone());
            table
        });
    }

    /// Removes a thing. O(n).
    pub(super) fn leave(&self, number: u32) {
        self.table.update(|table| {
            let mut table = table.cloned().unwrap_or_default();
            table.remove(&number);
            table
        });
    }

    /// Returns the thing with that number, if it still exists. O(log n).
    ///
    /// # Panics
    /// The thing is not a `T`.
    pub(super) fn find<T: Any + Send + Sync>(&self, number: u32) -> Option<Arc<T>> {
        let thing = self.table.with(|table| table?.get(&number)?.upgrade())?;
        Some(thing.downcast().expect("a number belongs to one thing"))
    }
}

debug! { impl[] Registry[] {} }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_entered_is_found_until_it_leaves_or_is_gone() {
        static REGISTRY: Registry = Registry::empty();
        let registry = &REGISTRY;
        assert!(registry.find::<u64>(1).is_none());
        let things = [5, 2, 9, 1].map(|number| (number, Arc::new(u64::from(number))));
        things.iter().for_each(|(number, thing)| registry.enter(*number, thing));
        for (number, thing) in &things {
            let found: Arc<u64> = registry.find(*number).unwrap();
            assert!(Arc::ptr_eq(&found, thing));
        }
        assert!([0, 3, 10].into_iter().all(|number| registry.find::<u64>(number).is_none()));
        registry.leave(2);
        registry.leave(7);
        assert!(registry.find::<u64>(2).is_none() && registry.find::<u64>(1).is_some());
        drop(things);
        assert!(registry.find::<u64>(5).is_none(), "nothing here keeps it alive");
    }
}
