//! Scheduling: how a payload gets its timer.
//!
//! *Owner*: any thread, through what it keeps of the engine (`local`); no lock is taken here.
//!
//! *Tested by*: `tests/never_early.rs`, `tests/exactly_once.rs`, `tests/limits.rs`,
//! `tests/engine_oracle.rs`.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::dispatch::IntoPayload;
use crate::entry::Entry;
use crate::error::{BindError, ScheduleError};
use crate::time::{Tick, saturating_ns};

use super::core::Core;
use super::local::{self, Local};
use super::{Engine, Handle};

// === impl Engine: scheduling ===

impl<T: Send + 'static> Engine<T> {
    /// Schedules `payload` to be handed over `delay` from now: never earlier, and later by less
    /// than a tick (plus the time that the system needs to wake the reaper). A delay too long to
    /// represent never ends.
    ///
    /// One exchange on the seat of a timer that this thread cancelled, or one push; never waits.
    /// O(1), whatever is pending.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Engine};
    /// # let engine = Engine::typed(|batch: Batch<'_, u64>| drop(batch))?;
    /// let timeout = engine.schedule(Duration::from_secs(30), 17)?;
    /// // The answer came in time, and with it the number of the call.
    /// assert_eq!(timeout.take(), Some(17));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The engine is full or has stopped; the payload comes back in the error.
    #[inline]
    pub fn schedule(
        &self,
        delay: Duration,
        payload: impl IntoPayload<T>,
    ) -> Result<Handle<T>, ScheduleError<T>> {
        let deadline = |core: &Core<T>, now_ns| core.scale.ceil_after(now_ns, delay);
        self.file(deadline, payload, true).map(Handle::new)
    }

    /// As [`schedule`](Engine::schedule), for a point in time. What is past fires at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Engine};
    /// # let engine = Engine::typed(|batch: Batch<'_, &str>| drop(batch))?;
    /// let lease_ends = engine.now() + Duration::from_secs(30);
    /// let renew = engine.schedule_at(lease_ends - Duration::from_secs(5), "renew")?;
    /// assert!(renew.deadline() < Some(lease_ends));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    #[inline]
    pub fn schedule_at(
        &self,
        deadline: Instant,
        payload: impl IntoPayload<T>,
    ) -> Result<Handle<T>, ScheduleError<T>> {
        let deadline = |core: &Core<T>, _| core.scale.ceil(core.clock.ns_at(deadline));
        self.file(deadline, payload, true).map(Handle::new)
    }

    /// As [`schedule`](Engine::schedule), for a timer that nobody will cancel: without a
    /// handle it also fires for less.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Builder, ManualClock};
    /// let engine = Builder::new().manual_clock(&ManualClock::new()).build_with_handler(
    ///     |batch: Batch<'_, &str>| batch.for_each(|what| println!("{what}")),
    /// )?;
    /// engine.schedule_detached(Duration::from_secs(1), "flush")?;
    /// assert_eq!(engine.advance(Duration::from_secs(1))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    #[inline]
    pub fn schedule_detached(
        &self,
        delay: Duration,
        payload: impl IntoPayload<T>,
    ) -> Result<(), ScheduleError<T>> {
        let deadline = |core: &Core<T>, now_ns| core.scale.ceil_after(now_ns, delay);
        self.file(deadline, payload, false).map(drop)
    }

    /// As [`schedule`](Engine::schedule), for a timer that may as well fire up to `slack`
    /// later: at any time from `delay` to `delay + slack` from now.
    ///
    /// Of the ticks in that window the engine takes one at which the widest bucket of the wheel
    /// opens. So timers whose windows overlap tend to share a wake-up, and a slack saves cascades:
    /// all of them, where it is as long as the bucket that the timer is filed in is wide. (That is
    /// between a 32nd of the delay and about the delay itself, with the default reach. The few
    /// that the slack takes beyond the reach of their level are cascaded once; and a timer that
    /// takes the seat of a cancelled one is re-filed when that one's bucket opens, as ever.) A
    /// slack in which no tick begins makes no difference.
    ///
    /// [`Handle::deadline`] and [`Lateness`](crate::Lateness) go by the tick that was taken. For
    /// what people and machines far away wait for anyway: idle connections, keep-alives, caches.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Batch, Builder, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let engine = Builder::new().shards(1).manual_clock(&clock).build_with_handler(
    ///     |batch: Batch<'_, u32>| println!("{} idle connections", batch.len()),
    /// )?;
    /// let slack = Duration::from_secs(3);
    /// for connection in 0..100_u32 {
    ///     let delay = Duration::from_millis(30_000 + 10 * u64::from(connection));
    ///     let _idle = engine.schedule_within(delay, slack, connection)?;
    /// }
    /// assert_eq!(engine.advance(Duration::from_secs(33))?, 100);
    /// assert_eq!(engine.stats().cascaded, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    pub fn schedule_within(
        &self,
        delay: Duration,
        slack: Duration,
        payload: impl IntoPayload<T>,
    ) -> Result<Handle<T>, ScheduleError<T>> {
        let deadline = |core: &Core<T>, now_ns: u64| {
            core.due_within(now_ns.saturating_add(saturating_ns(delay)), slack, now_ns)
        };
        self.file(deadline, payload, true).map(Handle::new)
    }

    /// As [`schedule_within`](Engine::schedule_within), for a point in time: the timer may
    /// fire from `deadline` to `deadline + slack`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Engine};
    /// let engine = Engine::typed(|batch: Batch<'_, &str>| drop(batch))?;
    /// let deadline = engine.now() + Duration::from_secs(60);
    /// let cache = engine.schedule_with(deadline, Duration::from_secs(10), "stale")?;
    /// let due = cache.deadline().expect("it is due some time");
    /// assert!(deadline <= due && due <= deadline + Duration::from_secs(10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    pub fn schedule_with(
        &self,
        deadline: Instant,
        slack: Duration,
        payload: impl IntoPayload<T>,
    ) -> Result<Handle<T>, ScheduleError<T>> {
        let deadline =
            |core: &Core<T>, now_ns| core.due_within(core.clock.ns_at(deadline), slack, now_ns);
        self.file(deadline, payload, true).map(Handle::new)
    }

    /// From now on, what the calling thread schedules goes to this shard: for threads that each
    /// drive one. Threads that do not say so are spread over the shards, and their timers may also
    /// take the places of cancelled ones on any of them.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Builder, ManualClock};
    /// # let clock = ManualClock::new();
    /// let engine = Builder::new().manual_clock(&clock).shards(2).build_with_handler(
    ///     |batch: Batch<'_, &str>| batch.for_each(|what| println!("{what}")),
    /// )?;
    /// engine.bind_thread(1)?;
    /// engine.schedule_detached(Duration::from_secs(1), "here")?;
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!([engine.turn(0)?.fired, engine.turn(1)?.fired], [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no such shard, the thread is ending (its thread-local values are being dropped, and
    /// with them what it would remember), or the engine is of the process that this one was forked
    /// from.
    pub fn bind_thread(&self, shard: usize) -> Result<(), BindError> {
        if shard >= self.shards() {
            return Err(BindError::NoSuchShard { shard, shards: self.shards() });
        }
        let mut local = local::of(self.core()).ok_or(BindError::Forked)?;
        if local.is_spare() {
            return Err(BindError::ThreadEnds);
        }
        let deferred = local.bind(shard as u32);
        local.give_back(deferred);
        Ok(())
    }

    /// Files `payload` for the tick that `deadline` reckons from the engine and its time.
    #[inline(always)]
    fn file(
        &self,
        deadline: impl FnOnce(&Core<T>, u64) -> Tick,
        payload: impl IntoPayload<T>,
        owned: bool,
    ) -> Result<NonNull<Entry<T>>, ScheduleError<T>> {
        // As in `Keeper::schedule`: nothing panics until it is in its entry.
        let payload = ManuallyDrop::new(payload.into_payload());
        let Some(mut local) = local::of(self.core()) else {
            return Err(ScheduleError::stopped(ManuallyDrop::into_inner(payload)));
        };
        let Local { core, watch, .. } = &mut *local;
        let now_ns = watch.now_ns(&core.clock);
        let deadline = deadline(core, now_ns);
        let (entry, deferred) = local.schedule::<false>(deadline, now_ns, payload, owned)?;
        local.give_back(deferred);
        Ok(entry)
    }
}
