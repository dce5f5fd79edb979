//! The purgatory itself, and how operations come in. How they end is in `ends`, what can be seen of
//! them in `view`.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::iter;

use crate::dispatch::Task;
use crate::engine::{Engine, EngineRef, When};
use crate::error::BuildError;
use crate::sync::{Arc, ShardedCount};

use super::expiry::Expiry;
use super::node::{COMPLETED, Hold, Lists, Node};
use super::{Arrival, Delayed, Operation, WatchError, WatchReason, ends};

/// Where operations wait under keys until they complete or time out: see the
/// [module](crate::purgatory).
///
/// Clones are cheap and share the purgatory. When the last clone is dropped, what waits is
/// cancelled and dropped; [`stop`](Purgatory::stop) returns it instead. (An operation that holds a
/// clone, to register its successor for example, keeps the purgatory for as long as it waits.)
///
/// *Threads.* Callbacks run on the thread whose call decided: the one that checks or forces, or,
/// if the timeout came, the engine's reaper, one after another there (so they should be short, as
/// every task of an engine). If that finds the operation inside a try or its registration, they
/// run on the thread that is at it, when the try is over: so `try_complete_else_watch` and
/// `check_and_complete` may also run `on_expire`.
///
/// *Cost.* A registration allocates once, takes one short lock per key and schedules one timer; an
/// end cancels the timer and takes the same locks: O(1) per key, whatever else waits. Keys are
/// spread over 256 locks, none of which is held during a callback or while a list is gone through.
/// `Eq` of keys is the one thing of the user's that runs under such a lock: it must not use the
/// purgatory. A purgatory has 64 KiB of its own, and some ten times that once every part has had
/// an operation; one that waits takes 96 bytes, 12 more for each key that it shares with many,
/// some 150 for a key of its own, and its timer.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Duration;
/// use tickless::purgatory::{Operation, Purgatory};
///
/// /// A fetch that waits for so many bytes of a topic.
/// struct Fetch {
///     written: Arc<AtomicU32>,
///     wanted: u32,
/// }
///
/// impl Operation for Fetch {
///     fn try_complete(&self) -> bool {
///         self.written.load(Ordering::Acquire) >= self.wanted
///     }
///     fn on_complete(&self) {
///         println!("{} bytes are there", self.written.load(Ordering::Acquire));
///     }
/// }
///
/// let purgatory = Purgatory::new()?;
/// let written = Arc::new(AtomicU32::new(0));
/// for wanted in [10, 20, 1_000] {
///     let fetch = Fetch { written: written.clone(), wanted };
///     let (key, timeout) = ("orders-0", Duration::from_secs(30));
///     purgatory.try_complete_else_watch(fetch.into(), [key], timeout)?;
/// }
/// written.fetch_add(64, Ordering::Release);
/// assert_eq!(purgatory.check_and_complete("orders-0"), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Purgatory<K, O, S = RandomState>
where
    K: Send + 'static,
    O: Operation,
{
    pub(super) inner: Arc<Inner<K, O, S>>,
}

/// What a purgatory's clones share.
pub(super) struct Inner<K, O, S>
where
    K: Send + 'static,
    O: Operation,
{
    pub(super) lists: Arc<Lists<K, O>>,
    /// Operations hold on to the lists by one of these.
    counts: ShardedCount<Arc<Lists<K, O>>>,
    pub(super) engine: Engine,
    pub(super) hasher: S,
}

// === impl Purgatory ===

impl<K, O> Purgatory<K, O>
where
    K: Hash + Eq + Send + 'static,
    O: Operation,
{
    /// A purgatory with an engine of its own, with default settings.
    ///
    /// # Errors
    /// The engine's threads could not be started.
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
    /// // The types of keys and operations are those of the first that comes in.
    /// purgatory.try_complete_else_watch(Fetch.into(), [("orders", 0)], Duration::from_secs(30))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new() -> Result<Purgatory<K, O>, BuildError> {
        Ok(Purgatory::with_engine(&Engine::new()?))
    }

    /// A purgatory whose timers are on `engine`, which may serve others besides. The tick, the
    /// number of shards, the clock and `max_pending` are that engine's, and so is who drives it.
    ///
    /// If the engine is stopped first, what waits does so without a timeout from then on, and
    /// nothing more is let in. (Of the tasks that `Engine::stop` returns, those that are the
    /// purgatory's expire their operations when they are run.) If the engine's dispatcher drops a
    /// task that is due (see [`Full::Drop`](crate::dispatch::Full::Drop)), the operation expires
    /// there, and its callbacks run where the task is dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::purgatory::{Operation, Purgatory};
    /// use tickless::{Engine, ManualClock};
    ///
    /// struct Never;
    /// impl Operation for Never {
    ///     fn try_complete(&self) -> bool {
    ///         false
    ///     }
    ///     fn on_complete(&self) {}
    /// }
    ///
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).build()?;
    /// let purgatory = Purgatory::with_engine(&engine);
    /// purgatory.try_complete_else_watch(Never.into(), [7], Duration::from_secs(1))?;
    /// engine.advance(Duration::from_secs(1))?;
    /// assert_eq!(purgatory.stats().expired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_engine(engine: &Engine) -> Purgatory<K, O> {
        Purgatory::with_hasher(engine, RandomState::new())
    }
}

impl<K, O, S> Purgatory<K, O, S>
where
    K: Hash + Eq + Send + 'static,
    O: Operation,
    S: BuildHasher,
{
    /// As [`with_engine`](Purgatory::with_engine), with another hash of keys. All 64 bits of it
    /// should be good: the upper half chooses the lock.
    ///
    /// ```
    /// # use std::hash::{BuildHasherDefault, DefaultHasher};
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// // Keys that no stranger chooses: the hash need not be seeded.
    /// let hasher = BuildHasherDefault::<DefaultHasher>::default();
    /// let purgatory = Purgatory::with_hasher(&Engine::new()?, hasher);
    /// purgatory.try_complete_else_watch(Fetch.into(), [17_u64], Duration::from_secs(30))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_hasher(engine: &Engine, hasher: S) -> Purgatory<K, O, S> {
        let lists = Arc::new(Lists::new());
        let counts = ShardedCount::new(|| lists.clone());
        Purgatory { inner: Arc::new(Inner { lists, counts, engine: engine.clone(), hasher }) }
    }

    /// Completes `operation` if it can, else lets it wait under each of `keys`, until a check of
    /// one of them, or force, completes it, or until `timeout`: a [`Duration`](std::time::Duration)
    /// from now, an [`Instant`](std::time::Instant), or a [`When`]. It is never early, and late by
    /// less than a tick of the engine. A timeout too long to represent never comes.
    ///
    /// The operation is tried here once before it is watched and once after, so that no change
    /// between is missed. A key that comes twice counts twice.
    ///
    /// # Errors
    /// There is no key, the engine is full, or the purgatory or its engine has stopped. The
    /// operation comes back in the error, and waits nowhere.
    ///
    /// # Panics
    /// The iterator over keys, their `Hash` or their `Eq` panicked: the operation waits nowhere.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # #[derive(Default)]
    /// # struct Produce(AtomicBool);
    /// # impl Operation for Produce {
    /// #     fn try_complete(&self) -> bool {
    /// #         self.0.load(Ordering::Acquire)
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::new()?;
    /// let produce = Arc::new(Produce::default());
    /// // One operation under the keys of all that it may wait for.
    /// let (replicas, timeout) = (["replica-1", "replica-2"], Duration::from_secs(30));
    /// purgatory.try_complete_else_watch(produce.clone(), replicas, timeout)?;
    /// produce.0.store(true, Ordering::Release);
    /// assert_eq!(purgatory.check_and_complete("replica-2"), 1);
    /// assert_eq!(purgatory.check_and_complete("replica-1"), 0, "it ends once");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_complete_else_watch(
        &self,
        operation: Arc<O>,
        keys: impl IntoIterator<Item = K>,
        timeout: impl Into<When>,
    ) -> Result<Arrival<K, O>, WatchError<O>> {
        let timeout = timeout.into();
        let Inner { lists, counts, engine, hasher } = &*self.inner;
        let mut keys = keys.into_iter();
        let Some(first) = keys.next() else {
            return Err(WatchError::new(WatchReason::NoKeys, operation));
        };
        let mut completes = false;
        lists.contained(|| completes = operation.try_complete());
        if completes {
            lists.contained(|| operation.on_complete());
            return Ok(Arrival::Completed);
        }

        let hash = hasher.hash_one(&first);
        let node = Node::new_held(operation, counts.of(hash).clone());
        let mut hold = Hold::of_new(&node);
        let others = keys.map(|key| (hasher.hash_one(&key), key));
        for (hash, key) in iter::once((hash, first)).chain(others) {
            if node.decision().is_some() {
                break;
            }
            if !hold.watch(key, hash) {
                return refuse(hold, &node, WatchReason::Stopped);
            }
        }
        if node.decision().is_some() {
            hold.give_up();
            return Ok(Arrival::Delayed(Delayed::new(node)));
        }
        let engine = EngineRef::new(engine);
        let due_ns = engine.due_ns(timeout).unwrap_or(0);
        let expiry = Expiry::new(node.clone(), due_ns, engine);
        match engine.schedule_at_ns(due_ns, Task::new(move || expiry.come())) {
            Ok(timer) => hold.keep(timer),
            // The task goes when the operation is decided, and so has no say in this.
            Err(error) if error.is_full() => return refuse(hold, &node, WatchReason::Full),
            Err(_error) => return refuse(hold, &node, WatchReason::Stopped),
        }
        Ok(match hold.work() {
            COMPLETED => Arrival::Completed,
            _ => Arrival::Delayed(Delayed::new(node)),
        })
    }
}

impl<K, O, S> Clone for Purgatory<K, O, S>
where
    K: Send + 'static,
    O: Operation,
{
    fn clone(&self) -> Purgatory<K, O, S> {
        Purgatory { inner: self.inner.clone() }
    }
}

impl<K, O, S> fmt::Debug for Purgatory<K, O, S>
where
    K: Send + 'static,
    O: Operation,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.inner.lists.stats();
        f.debug_struct("Purgatory").field("len", &stats.delayed).finish_non_exhaustive()
    }
}

// === impl Inner ===

impl<K, O, S> Drop for Inner<K, O, S>
where
    K: Send + 'static,
    O: Operation,
{
    fn drop(&mut self) {
        for operation in ends::cancel_all(&self.lists, self.lists.close().into_iter()) {
            self.lists.contained(|| drop(operation));
        }
    }
}

/// Gives an operation back that cannot be let in, unless somebody has decided it meanwhile.
fn refuse<K, O>(
    hold: Hold<'_, K, O>,
    node: &Arc<Node<K, O>>,
    reason: WatchReason,
) -> Result<Arrival<K, O>, WatchError<O>>
where
    K: Send + 'static,
    O: Operation,
{
    match hold.give_up() {
        true => Err(WatchError::new(reason, node.operation().clone())),
        false => Ok(Arrival::Delayed(Delayed::new(node.clone()))),
    }
}
