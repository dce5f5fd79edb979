//! What one does with timers that wait, by their keys.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

use crate::dispatch::{Panics, Task};
use crate::engine::{Engine, When};

use super::node::ByKey;
use super::{KeyedTimers, ResetError};

// === impl KeyedTimers ===

impl<K, S> KeyedTimers<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
{
    /// Cancels what waits under `key`. `true`: its task will never run and was dropped, here;
    /// the key is free, and the engine counts it no more. `false`: nothing was waiting.
    ///
    /// A task that has begun is not waiting any more. One that the engine has taken out but not
    /// begun is, and can be cancelled.
    ///
    /// One search of the map and one exchange in the engine. O(1).
    ///
    /// # Panics
    /// With what `Hash` or `Eq` of a key panics with: then nothing has changed; or with what
    /// dropping the task or the key panics with, which happens last.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::keyed::KeyedTimers;
    ///
    /// let timers = KeyedTimers::new()?;
    /// timers.schedule_keyed("key".to_owned(), Duration::from_secs(5), || println!("due"))?;
    /// assert!(timers.cancel("key"));
    /// assert!(!timers.cancel("key"), "it was cancelled before");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.take(key).is_some()
    }

    /// Cancels what waits under `key` and returns its task. `None`: nothing was waiting.
    ///
    /// Costs and promises what [`cancel`](KeyedTimers::cancel) does.
    ///
    /// # Panics
    /// As [`cancel`](KeyedTimers::cancel).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::keyed::KeyedTimers;
    ///
    /// let timers = KeyedTimers::new()?;
    /// timers.schedule_keyed("flush", Duration::from_secs(5), || println!("flushing"))?;
    /// // The file is being closed: at once, then, and here.
    /// if let Some(flush) = timers.take("flush") {
    ///     flush.run();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "`cancel` drops the task, and costs the same"]
    pub fn take<Q>(&self, key: &Q) -> Option<Task>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (task, remains) = self.door().take(key)?.call_off();
        let mut panics = Panics::none();
        remains.let_go(&mut panics);
        Some(panics.go_on_or(task))
    }

    /// Moves the timer that waits under `key`: it is due at `when`, and at no other time.
    ///
    /// One search of the map and one exchange, where the new time is not much earlier than the old
    /// one; else the cost of a schedule and a cancel besides. O(1). Of several that move one timer
    /// at the same time, one is the last.
    ///
    /// # Errors
    /// No timer waits under the key; or it had to be scheduled anew, and the engine is full or has
    /// stopped: then it waits as it did before.
    ///
    /// # Panics
    /// With what `Hash` or `Eq` of a key panics with: then nothing has changed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::keyed::{KeyedTimers, ResetError};
    ///
    /// let timers = KeyedTimers::new()?;
    /// timers.schedule_keyed("session", Duration::from_secs(60), || println!("logged out"))?;
    /// assert_eq!(timers.reset("session", Duration::from_secs(90)), Ok(()));
    /// assert_eq!(timers.reset("another", Duration::from_secs(90)), Err(ResetError::Absent));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset<Q>(&self, key: &Q, when: impl Into<When>) -> Result<(), ResetError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.door().reset(key, when.into())
    }

    /// Whether a timer waits under `key`. Something else may be so right after. O(1).
    ///
    /// # Panics
    /// With what `Hash` or `Eq` of a key panics with.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.door().table().contains(&ByKey { key, hash: self.door().hash(key) })
    }

    /// When the timer that waits under `key` is due: its deadline rounded up to the tick. `None`:
    /// nothing waits there, or it is never due. O(1).
    ///
    /// # Panics
    /// With what `Hash` or `Eq` of a key panics with.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::keyed::KeyedTimers;
    /// let timers = KeyedTimers::new()?;
    /// let before = timers.engine().now();
    /// timers.schedule_keyed(7, Duration::from_secs(5), || println!("due"))?;
    /// assert!(timers.deadline(&7).is_some_and(|due| due >= before + Duration::from_secs(5)));
    /// assert_eq!(timers.deadline(&8), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline<Q>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let door = self.door();
        let tick = door.table().deadline(&ByKey { key, hash: door.hash(key) })?;
        door.engine().instant_of(tick)
    }
}

impl<K, S> KeyedTimers<K, S>
where
    K: Eq + Send + Sync + 'static,
{
    /// How many timers wait. Sums up counts, 64 of them: exact when no thread is inside a call.
    pub fn len(&self) -> usize {
        self.door().waiting()
    }

    /// Whether no timer waits: as [`len`](KeyedTimers::len).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `look` with the key of each timer that waits, in no order.
    ///
    /// What waits throughout is among them; what comes, goes or is replaced meanwhile may be or
    /// not. The keys are collected first (O(n), one reference to each), so that `look` may use the
    /// timers.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::keyed::KeyedTimers;
    /// let timers = KeyedTimers::new()?;
    /// timers.schedule_keyed("ada", Duration::from_secs(5), || println!("due"))?;
    /// timers.for_each_key(|key| println!("{key} is waited for"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each_key(&self, mut look: impl FnMut(&K)) {
        for node in self.door().table().nodes() {
            look(&node.key);
        }
    }

    /// Cancels each timer whose key `keep` is false for, and answers how many those were. O(n).
    ///
    /// What waits throughout is judged. What replaces a timer after its key was judged stays.
    ///
    /// # Panics
    /// With what `keep` panics with, at once; with the first that dropping a task panics with, when
    /// all are cancelled.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::keyed::KeyedTimers;
    /// let timers = KeyedTimers::new()?;
    /// for user in 0..10 {
    ///     timers.schedule_keyed(user, Duration::from_secs(5), || println!("due"))?;
    /// }
    /// assert_eq!(timers.retain(|user| user % 2 == 0), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K) -> bool) -> usize {
        let mut panics = Panics::none();
        let is_meant = |key: &K| !keep(key);
        let cancelled = self.door().call_off_where(is_meant, &mut panics);
        panics.go_on();
        cancelled
    }

    /// Cancels every timer that waits, and answers how many those were. O(n).
    ///
    /// What is scheduled meanwhile may be among them or not.
    ///
    /// # Panics
    /// As [`retain`](KeyedTimers::retain).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::keyed::KeyedTimers;
    /// let timers = KeyedTimers::new()?;
    /// timers.schedule_keyed(7, Duration::from_secs(5), || println!("due"))?;
    /// assert_eq!((timers.cancel_all(), timers.len()), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_all(&self) -> usize {
        self.retain(|_| false)
    }

    /// The engine that the timers are on: to stop it, to advance it, to see what it has counted.
    ///
    /// It counts what it hands over: what is cancelled or replaced between that and its task is one
    /// that `fired` there.
    pub fn engine(&self) -> &Engine {
        self.door().engine()
    }
}

impl<K, S> fmt::Debug for KeyedTimers<K, S>
where
    K: Eq + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedTimers").field("len", &self.len()).finish_non_exhaustive()
    }
}
