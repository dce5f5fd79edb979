//! `KeyedTimers`: construction and scheduling. The operations on waiting timers are in `by_key`.
//!
//! *Owner*: the clones of the timers, by reference count.
//!
//! *Tested by*: `tests/suite/keyed/answers.rs`, `tests/suite/keyed/ends.rs`,
//! `tests/races/keyed/races.rs`.

use std::hash::{BuildHasher, Hash, RandomState};

use tickless::internal::Panics;
use tickless::internal::sync::Arc;
use tickless::{BuildError, Engine, IntoPayload, ScheduleError, Task, When};

use super::door::Door;
use super::error::by_the_engine;
use super::table::Rule;
use super::{IfAbsentError, Scheduled};

/// Timers under keys, at most one under each: see the [crate].
///
/// Clones are cheap and share the timers. When the last clone is dropped, all waiting timers are
/// cancelled and their tasks dropped (a panic of such a drop is swallowed). A task that captures a
/// clone keeps the timers alive while it waits.
///
/// *Threads.* All methods may be called from any thread and from tasks, even from the task of the
/// same key. Tasks run where those of the engine run.
///
/// *Cost.* Scheduling allocates once (and once more for a closure of more than three words). The
/// other operations on a key allocate nothing of their own, unless they wait for a task. Each
/// operation searches the map, O(1), and costs in the engine as much as with a plain
/// [`Handle`](tickless::Handle).
///
/// The map has some 32 parts per CPU (a power of two, from 64 to 256) with a lock each. A lock is
/// held for one search, or while a part that has grown moves to a table of twice the size. Threads
/// wait for each other only at these locks, and no timer is scheduled or cancelled on the engine
/// under one.
///
/// An empty `KeyedTimers` takes 25 to 49 KiB. A waiting timer takes about 100 bytes besides its key
/// and its entry in the engine (110 when the parts have just grown). The tables shrink when keys
/// are removed.
///
/// ```
/// use std::time::Duration;
/// use tickless_keyed::{KeyedTimers, Scheduled};
///
/// let idle = KeyedTimers::<u64>::new()?;
/// let (connection, half_a_minute) = (7, Duration::from_secs(30));
/// let close = || println!("connection 7 is idle");
/// assert_eq!(idle.schedule_keyed(connection, half_a_minute, close)?, Scheduled::New);
/// idle.reset(&connection, half_a_minute)?; // it sent something
/// assert!(idle.cancel(&connection), "it said goodbye");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedTimers<K, S = RandomState> {
    pub(super) door: Arc<Door<K, Task, S>>,
}

// === impl KeyedTimers ===

impl<K> KeyedTimers<K>
where
    K: Hash + Eq + Send + Sync + 'static,
{
    /// Creates timers with an engine of their own, with default settings.
    ///
    /// # Errors
    /// The engine's threads could not be started.
    pub fn new() -> Result<KeyedTimers<K>, BuildError> {
        Ok(KeyedTimers::with_engine(&Engine::new()?))
    }

    /// Creates timers on `engine`, which may have other timers too, including other keyed timers.
    /// The tick, the number of shards, the clock, `max_pending` and the dispatch of tasks are that
    /// engine's.
    ///
    /// If the engine is stopped, waiting timers are among the tasks that [`Engine::stop`] returns.
    /// Such a timer still waits under its key and can be cancelled. Running the returned task runs
    /// it, and dropping the returned task removes it. A call that schedules while the engine stops
    /// may succeed after the stop has returned its task: the engine has the timer first, the map
    /// second.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_keyed::KeyedTimers;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).build()?;
    /// let timers = KeyedTimers::with_engine(&engine);
    /// timers.schedule_keyed("key", Duration::from_secs(1), || println!("due"))?;
    /// assert_eq!(engine.advance(Duration::from_secs(1))?, 1);
    /// assert!(timers.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Engine::stop`]: https://docs.rs/tickless/latest/tickless/struct.Engine.html#method.stop
    pub fn with_engine(engine: &Engine) -> KeyedTimers<K> {
        KeyedTimers::with_hasher(engine, RandomState::new())
    }
}

impl<K, S> KeyedTimers<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
{
    /// As [`with_engine`](KeyedTimers::with_engine), with another hasher of keys.
    ///
    /// A weak hash will do, even one that returns a number as it is, as long as different keys have
    /// different hashes. Keys with equal hashes are searched one by one.
    ///
    /// ```
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    /// use tickless::Engine;
    /// use tickless_keyed::KeyedTimers;
    ///
    /// // The same hash in every run.
    /// type Fixed = BuildHasherDefault<DefaultHasher>;
    /// let timers = KeyedTimers::<u64, Fixed>::with_hasher(&Engine::new()?, Fixed::default());
    /// # drop(timers);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_hasher(engine: &Engine, hasher: S) -> KeyedTimers<K, S> {
        KeyedTimers { door: Arc::new(Door::new(engine, hasher, ())) }
    }

    /// Runs `task` at `when` (a [`Duration`](std::time::Duration) from now, an
    /// [`Instant`](std::time::Instant), or a [`When`]). It replaces the timer that waits under
    /// `key`, if there is one: the replaced task will never run, and this call drops it. The
    /// precision is the engine's.
    ///
    /// O(1), however many timers wait.
    ///
    /// # Errors
    /// The engine is full or has stopped. The task comes back in the error, and the timer that
    /// waited under the key still waits. (A full engine also refuses a replacement, because both
    /// timers exist for a moment.)
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key (nothing has changed then, and the task was
    /// dropped), or a panic from dropping the replaced task or a key (which happens last; after a
    /// refusal it drops the task).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_keyed::{KeyedTimers, Scheduled};
    ///
    /// let timers = KeyedTimers::new()?;
    /// let second = Duration::from_secs(1);
    /// assert_eq!(timers.schedule_keyed("job", second, || println!("old"))?, Scheduled::New);
    /// assert_eq!(timers.schedule_keyed("job", second, || println!("new"))?, Scheduled::Replaced);
    /// assert_eq!(timers.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_keyed(
        &self,
        key: K,
        when: impl Into<When>,
        task: impl IntoPayload<Task>,
    ) -> Result<Scheduled, ScheduleError<Task>> {
        match self.door.put(key, when.into(), task.into_payload(), Rule::Replace) {
            Ok(None) => Ok(Scheduled::New),
            Ok(Some(replaced)) => {
                let mut panics = Panics::none();
                replaced.discard(&mut panics);
                panics.go_on();
                Ok(Scheduled::Replaced)
            }
            Err(refused) => Err(by_the_engine(refused)),
        }
    }

    /// Runs `task` at `when`, unless another timer waits under `key`.
    ///
    /// If several threads call this at the same time with one key, one of them succeeds. O(1),
    /// however many timers wait.
    ///
    /// # Errors
    /// Another timer was waiting under the key, or the engine is full or has stopped. The task
    /// comes back in the error, and nothing has changed.
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key. Nothing has changed then, and the task was
    /// dropped. The same holds for a panic from dropping the key after a refusal.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_keyed::{IfAbsentReason, KeyedTimers};
    ///
    /// let timers = KeyedTimers::new()?;
    /// // One flush per file, however often the file is written.
    /// for _ in 0..3 {
    ///     let flush = || println!("flushing");
    ///     match timers.schedule_if_absent("log", Duration::from_secs(60), flush) {
    ///         Ok(()) => println!("a flush is due in a moment"),
    ///         Err(error) if error.reason() == IfAbsentReason::Occupied => println!("it is due"),
    ///         Err(error) => return Err(error.into()),
    ///     }
    /// }
    /// assert_eq!(timers.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_if_absent(
        &self,
        key: K,
        when: impl Into<When>,
        task: impl IntoPayload<Task>,
    ) -> Result<(), IfAbsentError> {
        self.door.put(key, when.into(), task.into_payload(), Rule::IfAbsent).map(drop)
    }
}

impl<K, S> Clone for KeyedTimers<K, S> {
    fn clone(&self) -> KeyedTimers<K, S> {
        KeyedTimers { door: self.door.clone() }
    }
}
