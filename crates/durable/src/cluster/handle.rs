//! What a user holds of an instance.
//!
//! *Owner*: any thread.
//!
//! *Tested by*: `tests/durable/postgres/`, `tests/durable/nats/`.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::error::{ScheduleError, ScheduleReason, StopError};
use crate::payload::Payload;
use crate::position::ms_at_or_after;
use crate::promise::{Reply, promise, promise_alone};
use crate::record::Key;
use crate::service::{Cancelled, Durable, bytes_of};
use crate::store::Op;

use super::clerk::Then;
use super::id::{Entered, Ticket, TimerId};
use super::inner::Inner;
use super::lease::Lease;
use super::owner::{Instance, Owner};
use super::troubles::Failure;

/// This instance of the service: see the [module](super).
///
/// Clones share the instance. When the last one is dropped, it stops as by [`stop`](Cluster::stop).
pub struct Cluster<P = Vec<u8>> {
    pub(super) inner: Arc<Inner<P>>,
    /// A handler's has none.
    pub(super) owner: Option<Arc<Owner>>,
}

// === impl Cluster ===

impl<P: Payload> Cluster<P> {
    /// Schedules a timer for a time of the database's clock, rounded up to a millisecond: see
    /// [`now`](Cluster::now). A time that has passed is due at once.
    ///
    /// # Errors
    /// The instance has stopped, or the payload cannot be written, or it has more than 256 MiB, or
    /// too much waits to be written ([`ScheduleReason::Busy`]).
    pub fn schedule(&self, at: SystemTime, payload: P) -> Result<Ticket, ScheduleError<P>> {
        self.enter(None, at, payload)
    }

    /// Schedules a timer under a key, and replaces the timer that has this key, if there is one, as
    /// by a [`cancel`](Cluster::cancel).
    ///
    /// # Errors
    /// As [`schedule`](Cluster::schedule).
    pub fn schedule_keyed(
        &self,
        key: impl AsRef<[u8]>,
        at: SystemTime,
        payload: P,
    ) -> Result<Ticket, ScheduleError<P>> {
        self.enter(Some(key.as_ref().into()), at, payload)
    }

    /// Schedules a timer under a key if no timer has this key: on no instance, also if another does
    /// the same at this moment. See [`Durable::schedule_if_absent`].
    ///
    /// # Errors
    /// As [`schedule`](Cluster::schedule).
    pub fn schedule_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        at: SystemTime,
        payload: P,
    ) -> Result<Entered, ScheduleError<P>> {
        let key: Key = key.as_ref().into();
        bytes_of(Some(&key), &payload)
            .and_then(|bytes| self.enter_new(&key, ms_at_or_after(at), bytes))
            .map_err(|reason| ScheduleError { payload, reason })
    }

    fn enter(
        &self,
        key: Option<Key>,
        at: SystemTime,
        payload: P,
    ) -> Result<Ticket, ScheduleError<P>> {
        bytes_of(key.as_deref(), &payload)
            .and_then(|bytes| self.enter_bytes(key, ms_at_or_after(at), bytes))
            .map_err(|reason| ScheduleError { payload, reason })
    }
}

impl<P> Cluster<P> {
    fn enter_bytes(
        &self,
        key: Option<Key>,
        due_ms: u64,
        payload: Arc<[u8]>,
    ) -> Result<Ticket, ScheduleReason> {
        let inner = &self.inner;
        let shard = key.as_ref().map_or_else(|| inner.next_shard(), |key| inner.shard_of(key));
        if let Some(durable) = inner.open_at(shard) {
            match durable.enter_bytes(key.clone(), due_ms, payload.clone()) {
                Ok(ticket) => return Ok(Ticket { shard, ticket }),
                Err(ScheduleReason::Busy) => return Err(ScheduleReason::Busy),
                // It has just lost the shard, and so the timer goes to another's.
                Err(_) => {}
            }
        }
        let record = inner.record(key, due_ms, payload)?;
        let (promise, reply) = promise(&inner.clerk);
        let ticket = crate::promise::Ticket::new(record.id(), reply);
        let is_urgent = inner.is_soon(due_ms);
        inner.clerk.write(shard, Op::Put(record), Then::Put(promise), is_urgent);
        Ok(Ticket { shard, ticket })
    }

    fn enter_new(
        &self,
        key: &Key,
        due_ms: u64,
        payload: Arc<[u8]>,
    ) -> Result<Entered, ScheduleReason> {
        let inner = &self.inner;
        let shard = inner.shard_of(key);
        if let Some(durable) = inner.open_at(shard) {
            match durable.enter_new(key.clone(), due_ms, payload.clone()) {
                Ok(reply) => return Ok(Entered { shard, reply }),
                Err(ScheduleReason::Busy) => return Err(ScheduleReason::Busy),
                // It has just lost the shard, and so the timer goes to another's.
                Err(_) => {}
            }
        }
        let record = inner.record(Some(key.clone()), due_ms, payload)?;
        let (promise, reply) = promise(&inner.clerk);
        let then = Then::New(record.id(), promise);
        inner.clerk.write(shard, Op::PutNew(record), then, inner.is_soon(due_ms));
        Ok(Entered { shard, reply })
    }

    /// Cancels the timer with this number, whichever instance has scheduled it. See
    /// [cancelling](super#cancelling).
    pub fn cancel(&self, id: TimerId) -> Reply<Cancelled> {
        self.take_out(id.shard_of(self.inner.shards), Op::Cancel(id.timer), |durable| {
            durable.cancel(id.timer)
        })
    }

    /// Cancels the timer with this key: see [`cancel`](Cluster::cancel).
    pub fn cancel_key(&self, key: impl AsRef<[u8]>) -> Reply<Cancelled> {
        let key: Key = key.as_ref().into();
        let shard = self.inner.shard_of(&key);
        self.take_out(shard, Op::CancelKey(key.clone()), |durable| durable.cancel_key(&key))
    }

    fn take_out(
        &self,
        shard: u32,
        op: Op,
        here: impl FnOnce(&Durable<P>) -> Reply<Cancelled>,
    ) -> Reply<Cancelled> {
        if let Some(durable) = self.inner.open_at(shard) {
            let reply = here(&durable);
            // If it refuses, it has just lost the shard.
            if !matches!(reply.try_get(), Some(Err(_))) {
                return reply;
            }
        }
        let (promise, reply) = promise_alone();
        // From when it is written, the timer does not fire: that is not put off.
        self.inner.clerk.write(shard, op, Then::Cancel(promise), true);
        reply
    }

    /// The time by the database's clock, by which timers are due. It is a little behind that clock,
    /// by less than the time that a question to the database takes.
    pub fn now(&self) -> SystemTime {
        self.inner.clock.now()
    }

    /// The number of this instance. No other ever has the same.
    pub fn instance(&self) -> u64 {
        self.inner.instance
    }

    /// The shards whose timers fire here, and their fences.
    pub fn shards(&self) -> Vec<(u32, u64)> {
        let held = self.inner.held();
        let is_open = |lease: &Arc<Lease>| held.open_at(lease.taken.shard).is_some();
        let open = held.leases().into_iter().filter(is_open);
        open.map(|lease| (lease.taken.shard, lease.taken.fence.cast_unsigned())).collect()
    }

    /// What this instance has failed at last: at reaching the database, or at opening a shard. It
    /// goes on trying, and when it has worked, or when another instance has the shard, this is
    /// `None` again.
    ///
    /// A shard that cannot be opened is tried again after a pause, from a tenth of a lease on up to
    /// a minute.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.state().troubles.last().cloned()
    }

    /// Stops the instance: no handler begins any more, those that run come to their end, what is
    /// pending is written, and other instances take the shards. It waits for handlers as long as
    /// they run, and keeps their shards until then: see [`stop_within`](Cluster::stop_within) and
    /// [`handler_limit`](crate::Builder::handler_limit). A process that ends instead leaves its
    /// shards to others when its leases are over.
    ///
    /// # Errors
    /// The call comes from the handler.
    pub fn stop(&self) -> Result<(), StopError> {
        let owner = self.owner.as_ref().ok_or(StopError::InHandler)?;
        if self.inner.is_in_handler() {
            return Err(StopError::InHandler);
        }
        owner.end();
        Ok(())
    }

    /// As [`stop`](Cluster::stop), but waits for handlers no longer than `limit`, and neither does
    /// a `stop` that waits already. Returns how many handlers the instance has left behind: their
    /// timers come again on other instances, perhaps while those handlers still run. That includes
    /// those of shards that it gave up before, and not those of shards that it has lost. What the
    /// database is asked for at the end takes two thirds of a lease more for each question that it
    /// does not reply to.
    ///
    /// # Errors
    /// As `stop`.
    pub fn stop_within(&self, limit: Duration) -> Result<usize, StopError> {
        if self.owner.is_none() || self.inner.is_in_handler() {
            return Err(StopError::InHandler);
        }
        if let Some(until) = Instant::now().checked_add(limit) {
            self.inner.end_by(until);
        }
        self.stop()?;
        Ok(self.inner.state().left_behind)
    }
}

impl<P> Clone for Cluster<P> {
    fn clone(&self) -> Cluster<P> {
        Cluster { inner: self.inner.clone(), owner: self.owner.clone() }
    }
}

impl<P> fmt::Debug for Cluster<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (instance, shards) = (self.instance(), self.shards());
        f.debug_struct("Cluster")
            .field("instance", &instance)
            .field("shards", &shards)
            .finish_non_exhaustive()
    }
}
