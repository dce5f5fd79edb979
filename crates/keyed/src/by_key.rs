//! The operations on waiting timers, by key.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

use tickless::internal::debug;
use tickless::{Engine, Task, When};

use super::{KeyedTimers, ResetError};

// === impl KeyedTimers ===

impl<K, S> KeyedTimers<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
{
    /// Cancels the timer that waits under `key`. Returns `true` if there was one: its task will
    /// never run and was dropped by this call, the key is free, and the engine no longer counts the
    /// timer. (If the timer is due, the engine may count it until it comes to it, and then as
    /// fired.) Returns `false` if no timer was waiting.
    ///
    /// A task that has started is no longer waiting. A task that is due but has not started still
    /// waits, and can be cancelled.
    ///
    /// O(1): one search of the map and one compare-and-swap in the engine.
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key (nothing has changed then), or a panic from
    /// dropping the task or the key (which happens last).
    pub fn cancel<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.take(key).is_some()
    }

    /// Cancels the timer that waits under `key` and returns its task, or `None` if no timer was
    /// waiting.
    ///
    /// Cost and guarantees are those of [`cancel`](KeyedTimers::cancel).
    ///
    /// # Panics
    /// As [`cancel`](KeyedTimers::cancel).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_keyed::KeyedTimers;
    ///
    /// let timers = KeyedTimers::new()?;
    /// timers.schedule_keyed("flush", Duration::from_secs(5), || println!("flushing"))?;
    /// // The file is being closed: flush it now, on this thread.
    /// if let Some(flush) = timers.take("flush") {
    ///     flush.run();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "`cancel` drops the task, and costs the same"]
    pub fn take<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Task>
    where
        K: Borrow<Q>,
    {
        self.door.take(key)
    }

    /// Moves the timer that waits under `key`: it is due at `when`, and not at its old time.
    ///
    /// O(1): one search of the map and one compare-and-swap if the new time is not much earlier
    /// than the old one; otherwise also a schedule and a cancel. If several threads move one timer
    /// at the same time, one of them is the last, and its time counts. (What happens to many timers
    /// that are moved from the present: [`Handle::reset`].)
    ///
    /// # Errors
    /// No timer waits under the key. Or the timer had to be scheduled anew, and the engine is full
    /// or has stopped; the timer then waits as before, unless another call has ended it meanwhile.
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key. Nothing has changed then. If the timer ends
    /// meanwhile, also a panic from dropping its key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_keyed::{KeyedTimers, ResetError};
    ///
    /// let timers = KeyedTimers::new()?;
    /// timers.schedule_keyed("session", Duration::from_secs(60), || println!("logged out"))?;
    /// assert_eq!(timers.reset("session", Duration::from_secs(90)), Ok(()));
    /// assert_eq!(timers.reset("another", Duration::from_secs(90)), Err(ResetError::Absent));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Handle::reset`]: https://docs.rs/tickless/latest/tickless/struct.Handle.html#method.reset
    pub fn reset<Q: Hash + Eq + ?Sized>(
        &self,
        key: &Q,
        when: impl Into<When>,
    ) -> Result<(), ResetError>
    where
        K: Borrow<Q>,
    {
        self.door.reset(key, when.into(), |_| ())
    }

    /// Returns `true` if a timer waits under `key`. That may change right after the call. O(1).
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.door.find(key, |_| ()).is_some()
    }

    /// Returns the deadline of the timer that waits under `key`, rounded up to the tick. `None` if
    /// no timer waits there, or if it is never due. O(1).
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key.
    pub fn deadline<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
    {
        self.door.deadline(key)
    }
}

impl<K, S> KeyedTimers<K, S> {
    /// Returns the number of waiting timers. It is exact if no timer is being added or removed.
    /// O(1), but not cheap: adds up the lengths of 64 to 256 parts.
    pub fn len(&self) -> usize {
        self.door.table.len()
    }

    /// Returns `true` if no timer waits. As exact as [`len`](KeyedTimers::len), and
    /// costs as much.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `look` with the key of each waiting timer, in no particular order.
    ///
    /// Timers that wait during the whole call are included. Timers that are added, removed or
    /// replaced meanwhile may or may not be. The keys are collected first (O(n), one reference to
    /// each), so `look` may use the timers.
    pub fn for_each_key(&self, look: impl FnMut(&K)) {
        self.door.for_each_key(look);
    }

    /// Cancels each timer for whose key `keep` returns `false`. Returns the number of cancelled
    /// timers. O(n).
    ///
    /// `keep` is called for each timer that waits during the whole call. A timer that replaces
    /// another after its key was checked stays.
    ///
    /// # Panics
    /// A panic of `keep` ends the call: the timers that are left stay. A panic from dropping tasks
    /// or keys does not. Propagates the first of all these panics at the end.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless_keyed::KeyedTimers;
    /// let timers = KeyedTimers::new()?;
    /// for user in 0..10 {
    ///     timers.schedule_keyed(user, Duration::from_secs(5), || println!("due"))?;
    /// }
    /// assert_eq!(timers.retain(|user| user % 2 == 0), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K) -> bool) -> usize {
        let (cancelled, panics) = self.door.call_off_where(|key| !keep(key));
        panics.go_on();
        cancelled
    }

    /// Cancels all waiting timers and returns their number. O(n).
    ///
    /// Timers that are scheduled meanwhile may or may not be among them.
    ///
    /// # Panics
    /// As [`retain`](KeyedTimers::retain).
    pub fn cancel_all(&self) -> usize {
        self.door.clear()
    }

    /// Returns the timers' engine, to stop it, to advance it or to read its statistics.
    ///
    /// The engine counts a timer as `fired` when it hands the timer over, even if the timer is
    /// cancelled or replaced here before its task starts. A reset that has to schedule the timer
    /// anew counts as a timer scheduled and one cancelled, and any other as a reset.
    pub fn engine(&self) -> &Engine {
        &self.door.engine
    }
}

debug! { impl[K, S] KeyedTimers[K, S] { len = |this| this.len() } }
