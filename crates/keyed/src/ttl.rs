//! `TtlMap`: a map whose entries have a time to live, on the table of keyed timers. The value is in
//! the place of a keyed timer's task. The operations on entries are in `ttl_by_key`.
//!
//! *Owner*: the clones of the map, by reference count. The callback for what expires belongs to the
//! table, so that a ticket that is run after the map has gone still finds it.
//!
//! *Invariants*: those of the door (`door.rs`) and the table (`table.rs`). Under a lock a value is
//! moved, or its `Arc` is cloned; no code of the user reads, clones or drops it there.
//!
//! *Tested by*: `tests/suite/ttl/steps.rs`, `tests/suite/ttl/ends.rs`, `tests/oracles/ttl.rs`,
//! `tests/races/ttl.rs`.

use std::hash::{BuildHasher, Hash, RandomState};
use std::mem::ManuallyDrop;

use tickless::internal::sync::Arc;
use tickless::internal::{contained, debug, unwind_safe};
use tickless::{BuildError, Engine, ScheduleError, When};

use super::door::Door;
use super::error::by_the_engine;
use super::node::Waits;
use super::table::Rule;

/// A map whose entries have a time to live: sessions, tokens, caches. When the time of an entry has
/// come, the entry is taken out of the map, and a callback gets its key and value, once.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tickless_keyed::TtlMap;
/// use tickless::{Engine, ManualClock};
///
/// let clock = ManualClock::new();
/// let engine = Engine::builder().manual_clock(&clock).build()?;
/// let logged_out = |user: &&str, _session: Arc<u32>| println!("{user} is logged out");
/// let sessions = TtlMap::<&str, u32>::with_engine(&engine, logged_out);
///
/// let minute = Duration::from_secs(60);
/// sessions.insert("ada", 7, minute)?;
/// sessions.insert("bob", 8, minute)?;
/// engine.advance(minute / 2)?;
/// // Ada sends a request: her session is looked up and extended, in one step.
/// assert_eq!(*sessions.get_and_extend("ada", minute)?, 7);
/// engine.advance(minute / 2)?;
/// assert_eq!(sessions.get("bob"), None, "his minute is over");
/// assert_eq!(sessions.remove("ada").as_deref(), Some(&7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Values
///
/// The map keeps each value in an [`Arc`], and hands out clones of that. So `get` asks nothing of
/// `V`, no closure or `Clone` of the user runs while a part of the map is locked, and who has got a
/// value may keep it for as long as it likes, even if the entry expires meanwhile. The entry itself
/// is handed over once: to who removes or replaces it, or to the callback. [`Arc::into_inner`]
/// returns the value if nobody else still has it. A value that changes is a `Mutex` or an atomic.
///
/// # Time to live
///
/// A time to live is anything that a timer may be scheduled for: a
/// [`Duration`](std::time::Duration) from now, an [`Instant`](std::time::Instant), or a [`When`]. A
/// [slack] suits a cache: its entries then share wake-ups. Times are rounded up to the
/// engine's tick, and an entry lives until the tick that is picked.
///
/// *No entry is served after its time*: [`get`](TtlMap::get), `get_and_extend`, `extend`, `remove`,
/// `contains_key` and `deadline` compare with the engine's clock, and do as if an entry whose time
/// has come were not there, even if the engine is late and has not handed it over yet. The callback
/// will get it. (Only `insert`, `retain`, `drain` and `clear` may take it before that.)
///
/// # The callback
///
/// It runs where the engine's tasks run, with a reference to the key and the value. The key is free
/// by then: the callback may insert under it again. A panic of the callback is one of a task: what
/// runs the engine's tasks counts it. A panic from dropping the callback itself is swallowed.
///
/// A task that the engine's dispatcher drops instead of running it (a full pool may) drops its
/// entry, without the callback.
///
/// The callback lives as long as the map. One that owns a clone of the map keeps it alive for ever:
/// let it own a [`Weak`](std::sync::Weak) reference to something that owns the map.
///
/// # The end
///
/// Clones are cheap and share the map. When the last clone is dropped, the entries are dropped, and
/// not handed to the callback. For [`Engine::stop`] see [`with_engine`](TtlMap::with_engine).
///
/// # Cost
///
/// An insert allocates twice: a node, and the `Arc` (unless it is passed one). A look-up, a removal
/// and an extension allocate nothing of their own. Everything else is as with
/// [`KeyedTimers`](super::KeyedTimers): the map has 64 to 256 parts with a lock each, which is held
/// for one search. An entry takes about as much memory as a keyed timer, and that of its value.
///
/// [slack]: https://docs.rs/tickless/latest/tickless/struct.When.html#method.slack
/// [`Engine::stop`]: https://docs.rs/tickless/latest/tickless/struct.Engine.html#method.stop
pub struct TtlMap<K, V: ?Sized, S = RandomState> {
    pub(super) door: Arc<Door<K, Arc<V>, S>>,
}

type Callback<K, V> = Box<dyn Fn(&K, Arc<V>) + Send + Sync>;

/// The callback for entries whose time has come.
pub(super) struct OnExpiry<K, V: ?Sized>(ManuallyDrop<Callback<K, V>>);

// === impl TtlMap ===

impl<K, V> TtlMap<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + ?Sized + 'static,
{
    /// Creates a map with an engine of its own, with default settings. `on_expiry` is called with
    /// each entry whose time has come.
    ///
    /// # Errors
    /// The engine's threads could not be started.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_keyed::TtlMap;
    ///
    /// // A cache: nobody asks for what has expired.
    /// let addresses = TtlMap::<String, str>::new(|_, _| ())?;
    /// addresses.insert("localhost".to_owned(), "127.0.0.1", Duration::from_secs(300))?;
    /// assert_eq!(addresses.get("localhost").as_deref(), Some("127.0.0.1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(
        on_expiry: impl Fn(&K, Arc<V>) + Send + Sync + 'static,
    ) -> Result<TtlMap<K, V>, BuildError> {
        Ok(TtlMap::with_engine(&Engine::new()?, on_expiry))
    }

    /// Creates a map on `engine`, which may have other timers too. The tick, the clock,
    /// `max_pending` and the dispatch of the callback are that engine's.
    ///
    /// If the engine is stopped, each entry is among the tasks that [`Engine::stop`] returns, as
    /// long as that task is kept. Until its time comes, the entry can be looked up and removed.
    /// Running the task hands the entry to the callback; dropping the task drops the entry. Nothing
    /// is left of it in the map in either case.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_keyed::TtlMap;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::new()?;
    /// let map = TtlMap::<u32, str>::with_engine(&engine, |key, value| println!("{key} {value}"));
    /// map.insert(7, "seven", Duration::from_secs(60))?;
    /// let returned = engine.stop()?;
    /// assert!(map.contains_key(&7));
    /// drop(returned);
    /// assert!(map.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Engine::stop`]: https://docs.rs/tickless/latest/tickless/struct.Engine.html#method.stop
    pub fn with_engine(
        engine: &Engine,
        on_expiry: impl Fn(&K, Arc<V>) + Send + Sync + 'static,
    ) -> TtlMap<K, V> {
        TtlMap::with_hasher(engine, RandomState::new(), on_expiry)
    }
}

impl<K, V, S> TtlMap<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + ?Sized + 'static,
    S: BuildHasher,
{
    /// As [`with_engine`](TtlMap::with_engine), with another hasher of keys: see
    /// [`KeyedTimers::with_hasher`](super::KeyedTimers::with_hasher).
    pub fn with_hasher(
        engine: &Engine,
        hasher: S,
        on_expiry: impl Fn(&K, Arc<V>) + Send + Sync + 'static,
    ) -> TtlMap<K, V, S> {
        let on_expiry = OnExpiry(ManuallyDrop::new(Box::new(on_expiry)));
        TtlMap { door: Arc::new(Door::new(engine, hasher, on_expiry)) }
    }

    /// Enters a value under `key` until `ttl` has passed. Returns the value that it replaces, if
    /// there is one: that one is handed over here, and will never expire. (That may be an entry
    /// whose time has come, if the callback has not got it yet.) O(1).
    ///
    /// `value` is a `V` or an `Arc<V>`. A time to live of zero, or an instant in the past, is over
    /// by the engine's next tick: then the callback gets the value.
    ///
    /// # Errors
    /// The engine is full or has stopped. The value comes back in the error, and the entry that was
    /// under the key stays. (A full engine also refuses a replacement, because both timers exist
    /// for a moment.)
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key (nothing has changed then, and the value was
    /// dropped), or a panic from dropping a key, which happens last.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::When;
    /// use tickless_keyed::TtlMap;
    ///
    /// let map = TtlMap::<u32, &str>::new(|_, _| ())?;
    /// let hour = Duration::from_secs(3600);
    /// assert_eq!(map.insert(7, "old", When::after(hour).slack(hour / 10))?, None);
    /// assert_eq!(map.insert(7, "new", hour)?.as_deref(), Some(&"old"));
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert(
        &self,
        key: K,
        value: impl Into<Arc<V>>,
        ttl: impl Into<When>,
    ) -> Result<Option<Arc<V>>, ScheduleError<Arc<V>>> {
        match self.door.put(key, ttl.into(), value.into(), Rule::Replace) {
            Ok(replaced) => Ok(replaced.map(|waiting| waiting.into_task())),
            Err(refused) => Err(by_the_engine(refused)),
        }
    }
}

impl<K, V: ?Sized, S> Clone for TtlMap<K, V, S> {
    fn clone(&self) -> TtlMap<K, V, S> {
        TtlMap { door: self.door.clone() }
    }
}

debug! { impl[K, V: ?Sized, S] TtlMap[K, V, S] { len = |this| this.len() } }

// === impl OnExpiry ===

impl<K, V: ?Sized> Waits<K> for Arc<V> {
    type Shared = OnExpiry<K, V>;
    const EXPIRES: bool = true;

    fn come(self, key: &K, on_expiry: &OnExpiry<K, V>) {
        (on_expiry.0)(key, self);
    }
}

// A panic of the callback leaves nothing of the map half-done: the entry was taken out before.
unwind_safe! { impl[K, V: ?Sized] OnExpiry[K, V] }

impl<K, V: ?Sized> Drop for OnExpiry<K, V> {
    fn drop(&mut self) {
        // The last to let go may be a ticket, on a thread that unwinds.
        // SAFETY: it is not used again.
        let on_expiry = unsafe { ManuallyDrop::take(&mut self.0) };
        contained(|| drop(on_expiry));
    }
}
