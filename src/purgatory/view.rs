//! What can be seen of a purgatory.
//!
//! *Tested by*: `tests/purgatory_keys.rs`, `tests/purgatory_oracle.rs`.

use std::hash::{BuildHasher, Hash};

use crate::engine::Engine;

use super::{Operation, Purgatory, Stats};

// === impl Purgatory: looking on ===

impl<K, O, S> Purgatory<K, O, S>
where
    K: Hash + Eq + Send + 'static,
    O: Operation,
    S: BuildHasher,
{
    /// How many operations wait. O(1), but not free: adds up 256 parts, each under its lock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::new()?;
    /// purgatory.try_complete_else_watch(Fetch.into(), [1, 2], Duration::from_secs(30))?;
    /// assert_eq!(purgatory.len(), 1, "one operation, although under two keys");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.inner.lists.stats().delayed
    }

    /// Whether no operation waits. As [`len`](Purgatory::len).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::new()?;
    /// purgatory.try_complete_else_watch(Fetch.into(), [1], Duration::from_secs(30))?;
    /// assert!(!purgatory.is_empty());
    /// purgatory.cancel_for_key(&1);
    /// assert!(purgatory.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many operations wait, each counted once for each of its keys. As
    /// [`len`](Purgatory::len).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::new()?;
    /// purgatory.try_complete_else_watch(Fetch.into(), [1, 2], Duration::from_secs(30))?;
    /// purgatory.try_complete_else_watch(Fetch.into(), [2], Duration::from_secs(30))?;
    /// assert_eq!((purgatory.len(), purgatory.watched()), (2, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watched(&self) -> usize {
        self.inner.lists.stats().watched
    }

    /// What the purgatory has counted. As [`len`](Purgatory::len).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::new()?;
    /// purgatory.try_complete_else_watch(Fetch.into(), [1, 2], Duration::from_secs(30))?;
    /// purgatory.cancel_for_key(&2);
    /// let stats = purgatory.stats();
    /// assert_eq!((stats.delayed, stats.keys, stats.cancelled), (0, 0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.inner.lists.stats()
    }

    /// The engine that has the timers.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::new()?;
    /// purgatory.try_complete_else_watch(Fetch.into(), [1], Duration::from_secs(30))?;
    /// assert_eq!(purgatory.engine().len(), 1, "its timeout");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Walks every invariant of the lists: for tests and fuzzing. O(n).
    ///
    /// # Panics
    /// One does not hold.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::new()?;
    /// purgatory.try_complete_else_watch(Fetch.into(), [1, 2, 3], Duration::from_secs(30))?;
    /// purgatory.check();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self) {
        self.inner.lists.check();
    }
}
