//! Instances that share timers, in a database of PostgreSQL's or on servers of NATS, and take over
//! each other's.
//!
//! ```no_run
//! # #[cfg(feature = "postgres")] {
//! use std::time::Duration;
//! use tickless_durable::{Cluster, cluster::Firing};
//!
//! // The same on every machine.
//! let cluster = Cluster::builder("host=db.example user=timers dbname=timers")
//!     .lease(Duration::from_secs(10))
//!     .start(|firing: &Firing<'_, String>| {
//!         println!("{} is due", firing.payload());
//!         Ok::<(), std::io::Error>(())
//!     })?;
//! let tea = cluster.now() + Duration::from_secs(180);
//! cluster.schedule_keyed("tea", tea, "tea is ready".to_owned())?.wait()?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How the work is shared
//!
//! The timers are in *shards*, whose number is chosen when the tables are made. An instance holds a
//! shard by a *lease*, which it renews three times before it is over, and has a service of its own
//! for each shard that it holds: see [`Durable`]. Instances that are alive have the same number of
//! shards, or one more. When an instance joins, others close some of theirs, and it takes them.
//! When one stops, it closes all. When one dies, the others take its shards as soon as their leases
//! are over: within the lease, and the milliseconds that opening takes.
//!
//! Each instance schedules and cancels any timer. A timer with a key belongs to the shard that the
//! key's hash says; one without goes to a shard of this instance. Timers for a shard of another
//! instance are written to the database, and its holder is told (`NOTIFY`). Firing is exact, as of
//! any service: nothing is polled.
//!
//! A shard that an instance gives up waits for the handlers that run for its timers, and until they
//! end, no other timer of it fires: on no instance. So while instances come and go, a timer can be
//! late by as long as a handler runs. Have handlers that run for minutes pass their work on, and
//! give handlers a [limit](crate::Builder::handler_limit): one that hangs keeps its shard else.
//!
//! Each reply of PostgreSQL is waited for during two thirds of a lease at most. An instance whose
//! server does not reply closes its shards within a lease, and says so ([`Cluster::failure`]).
//!
//! An instance has two connections, and one more for each shard that it holds. They last, and are
//! told of what others do: so a pooler in between has to pool sessions, not transactions. An
//! instance that finds one that pools transactions does not start.
//!
//! They are reached by Unix sockets, by TCP, or by TLS with a connector of yours
//! ([`Builder::tls`]). This crate brings no connector, and its tests use none.
//!
//! # What is promised
//!
//! - *Nothing is lost.* A timer whose ticket is ready fires, whichever instances die.
//! - *Nothing is early*, by the clock of the database. Timers are due by that clock, not by those
//!   of the instances, which may differ: compute times from [`Cluster::now`]. An instance reads it
//!   with each renewal, and goes by its monotonic clock in between.
//! - *Nobody else's.* An instance counts its leases from before it asked for them, by a clock that
//!   goes on while the machine is suspended, and less one percent. It looks at that clock right
//!   before it calls a handler. When a lease can be over, no handler begins, and the next holder's
//!   begin later.
//! - *One end.* The end of a timer is written only if the shard's fence, which grows with each
//!   taking, is still the instance's, which is decided in the same transaction.
//!
//! # What remains at least once
//!
//! A handler can run more than once for the same timer: it failed; its instance died before its end
//! was written; or its lease ran out while it ran (or between the look at the clock and its first
//! instruction, if the process was stopped there). In the last case the next holder's handler may
//! run beside it. If the clock of the database's machine is set forward by more than a hundredth of
//! a lease, leases are over earlier than their holders think, with the same effect: let it be
//! slewed.
//!
//! The other way round, a timer can be scheduled in the transaction of what it belongs to:
//! [`Cluster::schedule_in`], or from SQL (`ddl`).
//!
//! There are three ways to have an effect exactly once all the same:
//! - In the same database, [`Firing::settle`] takes the timer out in the transaction that has the
//!   effect.
//! - Elsewhere, note [`Firing::id`] together with the effect, and do nothing where it is noted.
//! - Where one cannot note each timer, note the largest [`Firing::fence`] of each shard, and refuse
//!   smaller ones: a handler that was held up then has no effect after the next holder's first.
//!
//! # Dead letters
//!
//! A timer that has failed too often, or that has ended its process too often, becomes a
//! [dead letter](DeadLetter). Any instance [reads](Cluster::dead_letters) those of all shards, and
//! [revives](Cluster::revive) or [forgets](Cluster::forget) them.
//!
//! # Cancelling
//!
//! A cancel of a timer in this instance's own shards is exact: from then on, no handler begins. For
//! another's shards, the timer is gone from the database when the reply is ready, and the holder is
//! told. A timer that is due before that has reached it, some milliseconds later, still fires; and
//! [`Cancelled::Cancelled`] includes that its handler was running. If two instances cancel a timer
//! within those milliseconds, both may be told that they did.
//!
//! # NATS
//!
//! With [`Cluster::nats`], "the database" above is the set of servers, and some things differ:
//!
//! - A shard's timers are in a stream, which its holder alone writes. Timers for another instance's
//!   shard go to that instance, and from there into the stream. If there is no holder at the
//!   moment, they wait. If the holder does not reply, it is unknown whether they are durable.
//! - Dead letters are read from the holders, too, and a reader waits for a shard without one.
//! - *Opening reads the stream*, so taking a shard over takes a time that grows with its timers.
//! - *Clocks.* The clock is that of the server that leads the bucket with the leases. Leases are by
//!   no clock of a server: an instance that has just started waits for one lease before it takes a
//!   shard from another.
//! - While servers elect a leader, which takes some seconds, batches wait and leases are not
//!   renewed, so a lease should be longer: 15 seconds or more. An instance that starts meanwhile
//!   asks again for up to 10 seconds, and may be refused.
//! - An instance has one connection.
//! - `Firing::settle` is for PostgreSQL.
//! - *Durable* means that most of a stream's servers have a batch. Whether they have synced it is a
//!   setting of theirs, `sync_interval`.

mod builder;
mod clerk;
mod clock;
mod closing;
mod firing;
mod held;
mod hub;
mod id;
mod inner;
mod keeper;
mod lease;
mod letters;
mod looking;
mod message;
#[cfg(feature = "nats")]
mod nats;
mod observer;
mod owner;
#[cfg(feature = "postgres")]
mod postgres;
mod troubles;
#[cfg(feature = "postgres")]
mod within;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::error::{OpenError, ScheduleError, ScheduleReason, StopError};
use crate::payload::Payload;
use crate::position::ms_at_or_after;
use crate::promise::{Reply, promise, promise_alone};
use crate::record::Key;
use crate::service::{Cancelled, Durable, Numbers, bytes_of};
use crate::store::{Op, Store};

pub use builder::Builder;
#[doc(hidden)]
pub use builder::Faults;
use clerk::{Clerk, Then};
use clock::SharedClock;
pub use firing::Firing;
use held::Held;
use hub::Hub;
pub use id::{Entered, Ticket, TimerId};
use lease::Lease;
pub use letters::DeadLetter;
pub use looking::{Shard, Timer, Work};
pub use observer::Observer;
use owner::{Instance, Owner};
#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub use postgres::ddl;
pub use troubles::Failure;
use troubles::Troubles;

/// This instance of the service: see the [module](self).
///
/// Clones share the instance. When the last one is dropped, it stops as by [`stop`](Cluster::stop).
pub struct Cluster<P = Vec<u8>> {
    inner: Arc<Inner<P>>,
    /// A handler's has none.
    owner: Option<Arc<Owner>>,
}

/// What the threads of an instance share.
struct Inner<P> {
    hub: Arc<dyn Hub>,
    /// How many shards there are.
    shards: u32,
    lease: Duration,
    /// The number of this instance. No other ever has the same.
    instance: u64,
    clock: Arc<SharedClock>,
    held: Mutex<Held<P>>,
    clerk: Arc<Clerk>,
    /// For timers that go to shards of others.
    numbers: Mutex<Numbers>,
    state: Mutex<State>,
    bell: Condvar,
    open: Box<Open<P>>,
    faults: Faults,
}

/// Opens the service of a shard.
type Open<P> = dyn Fn(&Arc<Inner<P>>, &Arc<Lease>, Box<dyn Store>) -> Result<Durable<P>, OpenError>
    + Send
    + Sync;

#[derive(Debug, Default)]
struct State {
    is_stopping: bool,
    /// The keeper is to look.
    is_woken: bool,
    /// Until when an end waits for handlers at most, and how many it has left behind.
    end_by: Option<Instant>,
    left_behind: usize,
    troubles: Troubles,
}

// === impl Cluster ===

impl Cluster {
    /// Returns a [`Builder`] for an instance whose timers are in this database:
    /// `host=.. user=..`, or a URL. See [`postgres::Config`](::postgres::Config).
    #[cfg(feature = "postgres")]
    #[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
    pub fn builder(database: &str) -> Builder {
        Builder::postgres(database)
    }

    /// Returns a [`Builder`] for an instance whose timers are on these servers of NATS, with
    /// JetStream: `nats://one.example,nats://other.example`. See [NATS](self#nats).
    #[cfg(feature = "nats")]
    #[cfg_attr(docsrs, doc(cfg(feature = "nats")))]
    pub fn nats(servers: &str) -> Builder {
        Builder::nats(servers)
    }
}

impl<P: Payload> Cluster<P> {
    /// Schedules a timer for a time of the database's clock, rounded up to a millisecond: see
    /// [`now`](Cluster::now). A time that has passed is due at once.
    ///
    /// # Errors
    /// The instance has stopped, or the payload cannot be written, or it has more than 256 MiB.
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
    /// [cancelling](self#cancelling).
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
    /// a `stop` that waits already. Returns how many handlers it has left behind: their timers come
    /// again on other instances, perhaps while those handlers still run. What the database is asked
    /// for at the end takes two thirds of a lease more for each question that it does not reply to.
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
