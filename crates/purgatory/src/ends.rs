//! How callers end operations (by a check of a key, by cancelling, by stopping the purgatory), and
//! what they can read.
//!
//! *Owner*: any thread, including in callbacks. No lock is held during a callback.
//!
//! *Orderings*: HOLD, in the nodes.
//!
//! *Tested by*: `tests/suite/purgatory/ends.rs`, `tests/suite/purgatory/keys.rs`,
//! `tests/races/purgatory.rs`, `tests/suite/purgatory/reentry.rs`.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use tickless::Engine;
use tickless::internal::sync::Arc;

use super::lists::Walk;
use super::node::Node;
use super::{Operation, Purgatory, Stats};

// === impl Purgatory: ends ===

impl<K, O: Operation, S: BuildHasher> Purgatory<K, O, S> {
    /// Tries each operation that waits under `key`, in the order of registration, and returns how
    /// many this call completed. Call it after each change of something that operations under `key`
    /// wait for.
    ///
    /// An operation that another thread is trying at the moment is left to that thread, which tries
    /// it again. An operation that is registered after the call began may not be tried by it.
    ///
    /// O(operations under the key), with one lock for each 32 of them.
    ///
    /// # Panics
    /// The key's `Hash` or `Eq` panicked.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// # use std::time::Duration;
    /// # use tickless_purgatory::{Operation, Purgatory};
    /// # struct Fetch(Arc<AtomicU64>);
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         self.0.load(Ordering::Acquire) > 0
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let (purgatory, offset) = (Purgatory::new()?, Arc::new(AtomicU64::new(0)));
    /// let fetch = Fetch(offset.clone()).into();
    /// purgatory.try_complete_else_watch(fetch, ["orders-0".to_owned()], Duration::from_secs(30))?;
    /// // The change first, then the check. The key may be borrowed: a `str` for a `String`.
    /// offset.fetch_add(1, Ordering::Release);
    /// assert_eq!(purgatory.check_and_complete("orders-0"), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_and_complete<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let mut completed = 0;
        self.inner.lists.visit(self.walk(key), |node| completed += usize::from(node.check()));
        completed
    }

    /// Cancels every operation that waits under `key`. No callback is called, the operation's timer
    /// is cancelled, and the operation is removed from all its keys. Returns the operations that
    /// this call cancelled. (If another thread is inside an operation's `try_complete` at this
    /// moment, that call continues, without effect; the operation is removed from its keys when the
    /// call returns.)
    ///
    /// O(operations under the key).
    ///
    /// # Panics
    /// The key's `Hash` or `Eq` panicked.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless_purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::new()?;
    /// let (both, minute) = (["orders-0", "orders-1"], Duration::from_secs(60));
    /// purgatory.try_complete_else_watch(Fetch.into(), both, minute)?;
    /// assert_eq!(purgatory.cancel_for_key("orders-0").len(), 1);
    /// assert!(purgatory.cancel_for_key("orders-1").is_empty(), "it is gone from there too");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_for_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Vec<Arc<O>>
    where
        K: Borrow<Q>,
    {
        self.inner.lists.cancel_all(self.walk(key))
    }

    /// Stops the purgatory: operations are no longer accepted (one that completes at once still
    /// does), and all operations that wait are cancelled and returned, each once. A second call
    /// returns nothing.
    ///
    /// Does not wait for callbacks that other threads are inside of; they continue. A
    /// `try_complete` of a returned operation may be among them, and has no effect. May be called
    /// from callbacks. The engine is not stopped: an engine given to
    /// [`with_engine`](Purgatory::with_engine) is stopped by its builder, and the engine of
    /// [`new`](Purgatory::new) ends with the last clone of the purgatory.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless_purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::new()?;
    /// purgatory.try_complete_else_watch(Fetch.into(), [1, 2], Duration::from_secs(60))?;
    /// assert_eq!(purgatory.stop().len(), 1);
    /// let late = purgatory.try_complete_else_watch(Fetch.into(), [1], Duration::from_secs(60));
    /// assert!(late.is_err(), "it is stopped");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) -> Vec<Arc<O>> {
        let lists = &self.inner.lists;
        lists.cancel_all(lists.close().into_iter())
    }

    fn walk<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Walk<'_, K, Arc<Node<K, O>>>
    where
        K: Borrow<Q>,
    {
        self.inner.lists.walk(self.inner.hasher.hash_one(key), key)
    }
}

// === impl Purgatory: observability ===

impl<K, O: Operation, S> Purgatory<K, O, S> {
    /// How many operations wait. O(1), but not cheap: adds up what 256 parts have recorded.
    pub fn len(&self) -> usize {
        self.inner.lists.stats().delayed
    }

    /// Whether no operation waits. Costs as much as [`len`](Purgatory::len).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many operations wait, each counted once for each of its keys. Costs as much as
    /// [`len`](Purgatory::len).
    pub fn watched(&self) -> usize {
        self.inner.lists.stats().watched
    }

    /// The statistics of the purgatory. Costs as much as [`len`](Purgatory::len).
    pub fn stats(&self) -> Stats {
        self.inner.lists.stats()
    }

    /// The engine that runs the timers.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Checks every invariant of the lists, for tests and fuzzing. O(n).
    ///
    /// # Panics
    /// An invariant does not hold.
    pub fn check(&self) {
        self.inner.lists.check();
    }
}
