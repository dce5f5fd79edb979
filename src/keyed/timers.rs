//! The timers: what schedules, moves, cancels and looks by key.

use std::hash::{BuildHasher, Hash, RandomState};

use crate::dispatch::{IntoPayload, Panics, Task};
use crate::engine::{Engine, When};
use crate::error::{BuildError, ScheduleError};
use crate::sync::Arc;

use super::door::{Door, Refusal};
use super::table::Rule;
use super::{IfAbsentError, Scheduled};

/// Timers under keys, at most one under each: see the [module](crate::keyed).
///
/// Clones are cheap and share the timers. When the last clone is dropped, what waits is cancelled
/// and dropped (a panic in that ends there). A task that captures a clone keeps them for as long as
/// it waits.
///
/// *Threads.* All methods may be called from any thread and from tasks, also from the task of the
/// very key. Tasks run where those of the engine run.
///
/// *Cost.* Scheduling allocates once (and once more for a closure of more than three words); no
/// other operation does, but for a reset to an earlier time. Each searches the map, O(1), and does
/// with the engine what the plain [`Handle`](crate::Handle) would. The map has 256 parts, each with
/// a lock that is held for the time of one search, or for that of moving a part that grows to twice
/// its size: besides that nobody waits for anybody, and nothing of the engine's happens under such
/// a lock. Empty timers have 49 KiB of their own; one that waits takes some 240 bytes besides
/// its key and its entry in the engine (300 where the parts have just grown); the tables shrink as
/// keys go.
///
/// ```
/// use std::time::Duration;
/// use tickless::keyed::{KeyedTimers, Scheduled};
///
/// let idle = KeyedTimers::<u64>::new()?;
/// let (connection, half_a_minute) = (7, Duration::from_secs(30));
/// let close = || println!("connection 7 is idle");
/// assert_eq!(idle.schedule_keyed(connection, half_a_minute, close)?, Scheduled::New);
/// idle.reset(&connection, half_a_minute)?; // it sent something
/// assert!(idle.cancel(&connection), "it said goodbye");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedTimers<K, S = RandomState>
where
    K: Eq + Send + Sync + 'static,
{
    door: Arc<Door<K, S>>,
}

// === impl KeyedTimers ===

impl<K> KeyedTimers<K>
where
    K: Hash + Eq + Send + Sync + 'static,
{
    /// Timers with an engine of their own, with default settings.
    ///
    /// # Errors
    /// The engine's threads could not be started.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::keyed::KeyedTimers;
    ///
    /// let timers = KeyedTimers::new()?;
    /// timers.schedule_keyed(7, Duration::from_secs(5), || eprintln!("no answer"))?;
    /// assert!(timers.cancel(&7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new() -> Result<KeyedTimers<K>, BuildError> {
        Ok(KeyedTimers::with_engine(&Engine::new()?))
    }

    /// Timers on `engine`, which may serve others besides, also other keyed ones. The tick, the
    /// number of shards, the clock, `max_pending` and who runs the tasks are that engine's.
    ///
    /// If the engine is stopped, what waits is among the tasks that [`Engine::stop`] returns: it
    /// still waits under its key, can be cancelled, and runs if that task is run. If that is
    /// dropped, it goes with it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::keyed::KeyedTimers;
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
    pub fn with_engine(engine: &Engine) -> KeyedTimers<K> {
        KeyedTimers::with_hasher(engine, RandomState::new())
    }
}

impl<K, S> KeyedTimers<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
{
    /// As [`with_engine`](KeyedTimers::with_engine), with another hash of keys.
    ///
    /// Any will do that differs where keys do, also one that only returns a number. Keys that share
    /// a hash are searched one by one.
    ///
    /// ```
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    /// use tickless::Engine;
    /// use tickless::keyed::KeyedTimers;
    ///
    /// // The same hash in every run.
    /// type Fixed = BuildHasherDefault<DefaultHasher>;
    /// let timers = KeyedTimers::<u64, Fixed>::with_hasher(&Engine::new()?, Fixed::default());
    /// # drop(timers);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_hasher(engine: &Engine, hasher: S) -> KeyedTimers<K, S> {
        KeyedTimers { door: Arc::new(Door::new(engine.clone(), hasher)) }
    }

    /// Runs `task` at `when` (a [`Duration`](std::time::Duration) from now, an
    /// [`Instant`](std::time::Instant), or a [`When`]), in place of the timer that waits under
    /// `key`, if one does. The replaced task will never run and is dropped here. The task runs as
    /// exactly as one of [`Engine::schedule`].
    ///
    /// O(1), whatever waits.
    ///
    /// # Errors
    /// The engine is full or has stopped. The task comes back in the error, and what waited under
    /// the key still does. (At its limit the engine refuses also what would only replace, since
    /// both have to be there for a moment.)
    ///
    /// # Panics
    /// With what `Hash` or `Eq` of a key panics with: then nothing has changed, and the task was
    /// dropped; or with what dropping the replaced task panics with, which happens last.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::keyed::{KeyedTimers, Scheduled};
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
        self.replace(key, when.into(), task.into_payload())
    }

    /// Runs `task` at `when`, unless another timer waits under `key`.
    ///
    /// Of several threads that try this at the same time with one key, one succeeds. O(1), whatever
    /// waits.
    ///
    /// # Errors
    /// Another timer was waiting under the key, or the engine is full or has stopped. The task
    /// comes back in the error, and nothing has changed.
    ///
    /// # Panics
    /// With what `Hash` or `Eq` of a key panics with: then nothing has changed, and the task was
    /// dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::keyed::KeyedTimers;
    ///
    /// let timers = KeyedTimers::new()?;
    /// // One flush per file, however often something is written to it.
    /// for _ in 0..3 {
    ///     let flush = || println!("flushing");
    ///     match timers.schedule_if_absent("log", Duration::from_millis(100), flush) {
    ///         Ok(()) => println!("a flush is due in a moment"),
    ///         Err(error) if error.is_occupied() => println!("it is due already"),
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
        self.add(key, when.into(), task.into_payload())
    }

    fn replace(&self, key: K, when: When, task: Task) -> Result<Scheduled, ScheduleError<Task>> {
        match self.door.put(key, when, task, Rule::Replace) {
            Ok(None) => Ok(Scheduled::New),
            Ok(Some((task, remains))) => {
                let mut panics = Panics::none();
                remains.let_go(&mut panics);
                panics.drop(task);
                panics.go_on();
                Ok(Scheduled::Replaced)
            }
            Err(Refusal::Engine(error)) => Err(error),
            Err(Refusal::Occupied(_)) => unreachable!("what replaces is not refused for that"),
        }
    }

    fn add(&self, key: K, when: When, task: Task) -> Result<(), IfAbsentError> {
        match self.door.put(key, when, task, Rule::IfAbsent) {
            Ok(_) => Ok(()),
            Err(Refusal::Occupied(task)) => Err(IfAbsentError::occupied(task)),
            Err(Refusal::Engine(error)) => Err(IfAbsentError::of(error)),
        }
    }
}

impl<K, S> KeyedTimers<K, S>
where
    K: Eq + Send + Sync + 'static,
{
    pub(super) fn door(&self) -> &Door<K, S> {
        &self.door
    }
}

impl<K, S> Clone for KeyedTimers<K, S>
where
    K: Eq + Send + Sync + 'static,
{
    fn clone(&self) -> KeyedTimers<K, S> {
        KeyedTimers { door: self.door.clone() }
    }
}
