//! How a payload gets its timer.
//!
//! *Owner*: any thread, through what it keeps of the engine (`local`); no lock is taken here.
//!
//! *Tested by*: `tests/never_early.rs`, `tests/exactly_once.rs`, `tests/limits.rs`,
//! `tests/engine_oracle.rs`.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::dispatch::IntoPayload;
use crate::entry::Entry;
use crate::error::{BindError, ScheduleError};

use super::local::{self, Local};
use super::{Engine, Handle, When};

// === impl Engine: scheduling ===

impl<T: Send + 'static> Engine<T> {
    /// Schedules `payload` for `when`: a [`Duration`](std::time::Duration) from now, an
    /// [`Instant`](std::time::Instant), or a [`When`] with a slack. On an [`Engine`] of closures the
    /// payload is a closure, to be run; on an `Engine<T>` it is a `T`, to be handed to the engine's
    /// handler.
    ///
    /// It is never early, and late by less than a tick (plus the time that the system needs to wake
    /// the reaper, and that other tasks of the shard take). A point in time that has passed is due
    /// at once; a delay too long to represent never ends.
    ///
    /// One compare-and-swap on the seat of a timer that this thread cancelled, or one push; never
    /// waits. O(1), however many timers are pending.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock, State};
    ///
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let (second, request) = (Duration::from_secs(1), 17);
    /// let timeout = engine.schedule(second, move || println!("no answer to {request}"))?;
    /// let lease = engine.schedule(engine.now() + 5 * second, || println!("it ends"))?;
    /// assert_eq!(engine.advance(second)?, 1);
    /// assert_eq!((timeout.state(), lease.state()), (State::Fired, State::Pending));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The engine is full or has stopped; the payload comes back in the error.
    #[inline]
    pub fn schedule(
        &self,
        when: impl Into<When>,
        payload: impl IntoPayload<T>,
    ) -> Result<Handle<T>, ScheduleError<T>> {
        self.file(when.into(), payload.into_payload(), true).map(Handle::new)
    }

    /// As [`schedule`](Engine::schedule), for a timer that nobody will cancel or reset: firing is
    /// also cheaper without a handle.
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    #[inline]
    pub fn schedule_detached(
        &self,
        when: impl Into<When>,
        payload: impl IntoPayload<T>,
    ) -> Result<(), ScheduleError<T>> {
        self.file(when.into(), payload.into_payload(), false).map(drop)
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

    /// Files `payload` for `when`.
    #[inline(always)]
    fn file(
        &self,
        when: When,
        payload: T,
        owned: bool,
    ) -> Result<NonNull<Entry<T>>, ScheduleError<T>> {
        // As in `Keeper::schedule`: nothing panics until it is in its entry.
        let payload = ManuallyDrop::new(payload);
        let Some(mut local) = local::of(self.core()) else {
            return Err(ScheduleError::stopped(ManuallyDrop::into_inner(payload)));
        };
        let Local { core, watch, .. } = &mut *local;
        let now_ns = watch.now_ns(&core.clock);
        let deadline = when.tick(core, now_ns);
        let (entry, deferred) = local.schedule::<false>(deadline, now_ns, payload, owned)?;
        local.give_back(deferred);
        Ok(entry)
    }
}
