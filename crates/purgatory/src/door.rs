//! The purgatory itself, and the registration of operations. All other calls are in `ends`.

use std::hash::{BuildHasher, Hash, RandomState};
use std::{iter, mem};

use tickless::internal::sync::{Arc, ShardedCount};
use tickless::internal::{EngineRef, debug};
use tickless::{BuildError, Engine, Refused, Task, When};

use super::node::{COMPLETED, Expiry, Hold, Lists, Node};
use super::{Arrival, Delayed, Operation, WatchError, WatchReason};

/// Operations wait here under keys until they complete or time out: see the
/// [crate].
///
/// Clones are cheap and share the purgatory. When the last clone is dropped, the operations that
/// wait are cancelled and dropped; [`stop`](Purgatory::stop) returns them instead. (An operation
/// that holds a clone, for example to register its successor, keeps the purgatory alive for as long
/// as it waits.)
///
/// *Threads.* Callbacks run on the thread whose call decided the end: the thread that checks or
/// forces, or the engine's reaper if the timeout came. They should be short, like every task of an
/// engine: others wait for them, up to the engine's [`takeover`],
/// after which they may overlap. If the decision comes while another thread tries or registers the
/// operation, the callbacks run on that thread when its try is over. So `try_complete_else_watch`
/// and `check_and_complete` may also run `on_expire`.
///
/// *Cost.* A registration allocates once, takes one short lock per key and schedules one timer. An
/// end cancels the timer and takes the same locks. Both are O(1) per key, however many operations
/// wait. Keys are spread over 256 locks, none of which is held during a callback or for a whole
/// walk along a list. The only code of the user that runs under such a lock is `Eq` of keys; it
/// must not use the purgatory. A purgatory takes some 80 KiB, and some 550 KiB once every part
/// has had an operation. An operation that waits takes 96 bytes, 12 bytes more for each key that it
/// shares with many others, about 140 for a key of its own, and its timer.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Duration;
/// use tickless_purgatory::{Operation, Purgatory};
///
/// /// A fetch that waits for `wanted` bytes of a topic.
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
///
/// [`takeover`]: https://docs.rs/tickless/latest/tickless/struct.Builder.html#method.takeover
pub struct Purgatory<K, O: Operation, S = RandomState> {
    pub(super) inner: Arc<Inner<K, O, S>>,
}

/// State shared by the clones of a purgatory.
pub(super) struct Inner<K, O: Operation, S> {
    pub(super) lists: Arc<Lists<K, O>>,
    /// Each operation keeps the lists alive by one of these counts.
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
    /// Creates a purgatory with an engine of its own, which has default settings, but one thread
    /// and no takeovers: operations expire one after another. The types of keys and operations are
    /// inferred from the first registration.
    ///
    /// # Errors
    /// The engine's thread could not be started.
    pub fn new() -> Result<Purgatory<K, O>, BuildError> {
        let engine = Engine::builder().takeover(None).reapers(1, 1).build()?;
        Ok(Purgatory::with_engine(&engine))
    }

    /// Creates a purgatory whose timers are on `engine`, which may also serve others. The tick, the
    /// number of shards, the clock, `max_pending` and the driving thread are those of the engine.
    ///
    /// If the engine is stopped first, no more operations are accepted, and no timeout comes by
    /// itself. (Among the tasks that `Engine::stop` returns are those of the purgatory. Running one
    /// expires its operation, and so does dropping one when its time has come. An operation whose
    /// task is dropped before that has no timeout any more.) If the engine's dispatcher drops a
    /// task that is due (see [`Full`](tickless::dispatch::Full)), the operation
    /// expires, and its callbacks run where the task is dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_purgatory::{Operation, Purgatory};
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
    /// Like [`with_engine`](Purgatory::with_engine), with another hasher for keys. All 64 bits of
    /// the hash should be well distributed: the upper half chooses the lock.
    ///
    /// ```
    /// # use std::hash::{BuildHasherDefault, DefaultHasher};
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless_purgatory::{Operation, Purgatory};
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

    /// Completes `operation` if it can complete now. Otherwise the operation waits under each of
    /// `keys` until a check of one of them or [`force_complete`](Delayed::force_complete) completes
    /// it, or until `timeout`: a [`Duration`](std::time::Duration) from now, an
    /// [`Instant`](std::time::Instant), or a [`When`]. The timeout is never early, and late by less
    /// than a tick of the engine, plus the time that the system needs to wake the engine's thread
    /// and that other tasks take. A timeout too long to represent never comes.
    ///
    /// The operation is tried here once before it is watched and once after, so that no change in
    /// between is missed. A key that is given twice counts twice.
    ///
    /// # Errors
    /// There is no key, the engine is full, or the purgatory or its engine has stopped. The error
    /// returns the operation, which waits nowhere.
    ///
    /// # Panics
    /// The iterator over keys, their `Hash` or their `Eq` panicked. The operation then waits
    /// nowhere.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use tickless_purgatory::{Operation, Purgatory};
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
            return Err(Refused::new(WatchReason::NoKeys, operation));
        };
        let mut completes = false;
        lists.contained(|| completes = operation.try_complete());
        if completes {
            lists.contained(|| operation.on_complete());
            return Ok(Arrival::Completed);
        }

        let hash = hasher.hash_one(&first);
        let node = Node::new_held(operation, counts.own().clone());
        let mut hold = Hold { node: &node };
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
        let due_ns = engine.due_ns(timeout);
        let expiry = Expiry { node: Some(node.clone()), due_ns, engine };
        match engine.schedule_at_ns(due_ns, Task::new(move || expiry.come()), true) {
            Ok(timer) => hold.keep(timer),
            // The error drops the task only after the operation is decided, so that drop decides
            // nothing.
            Err(error) if error.is_full() => return refuse(hold, &node, WatchReason::Full),
            Err(_error) => return refuse(hold, &node, WatchReason::Stopped),
        }
        Ok(match hold.work() {
            COMPLETED => Arrival::Completed,
            _ => Arrival::Delayed(Delayed::new(node)),
        })
    }
}

impl<K, O: Operation, S> Clone for Purgatory<K, O, S> {
    fn clone(&self) -> Purgatory<K, O, S> {
        Purgatory { inner: self.inner.clone() }
    }
}

debug! { impl[K, O: Operation, S] Purgatory[K, O, S] { len = |this| this.len() } }

// === impl Inner ===

impl<K, O: Operation, S> Drop for Inner<K, O, S> {
    fn drop(&mut self) {
        if EngineRef::new(&self.engine).is_inherited() {
            // In a child, a lock may be held for ever. The child's copy stays as it is.
            return mem::forget(self.lists.clone());
        }
        for operation in self.lists.cancel_all(self.lists.close().into_iter()) {
            self.lists.contained(|| drop(operation));
        }
    }
}

/// Returns an operation that cannot be accepted, unless its end was decided meanwhile.
fn refuse<K, O: Operation>(
    hold: Hold<'_, K, O>,
    node: &Arc<Node<K, O>>,
    reason: WatchReason,
) -> Result<Arrival<K, O>, WatchError<O>> {
    match hold.give_up() {
        true => Err(Refused::new(reason, node.operation.clone())),
        false => Ok(Arrival::Delayed(Delayed::new(node.clone()))),
    }
}
