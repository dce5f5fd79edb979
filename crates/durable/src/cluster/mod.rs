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
//! server does not reply says so ([`Cluster::failure`]); no handler of its begins when its leases
//! are over, and its shards are closed then. A connection that is lost closes none: the instance
//! makes another one, and reads its shards again.
//!
//! An instance has three connections, of which one writes what its services commit at about the
//! same time, in one transaction; and one more for each shard that it holds, for reading. They
//! last, and are told of what others do: so a pooler in between has to pool sessions, not
//! transactions. An instance that finds one that pools transactions does not start.
//!
//! They are reached by Unix sockets, by TCP, or by TLS with a connector of yours
//! ([`Builder::tls`]). This crate brings no connector but that of its command line.
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
//!   moment, they wait for one, at most for three leases; then they are refused, as in use. If the
//!   holder does not reply, it is unknown whether they are durable.
//! - Dead letters are read from the holders, too, and a reader waits as long for a shard without
//!   one.
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
//!
//! [`Durable`]: crate::Durable
//! [`Cancelled::Cancelled`]: crate::Cancelled::Cancelled

// From the bottom: `hub` (what instances share; in `postgres` and in `nats`) and its `message`s;
// `clock`, `lease`, `held`, `troubles`, `overdue`; the threads `clerk` and `keeper`, which closes
// shards by `closing`, and what they share, `inner`; what users hold, `handle` with `letters`,
// `looking` and `within`, `firing` and `observer`; `builder`, which starts all of this.

mod builder;
mod clerk;
mod clock;
mod closing;
mod firing;
mod handle;
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
mod overdue;
mod owner;
#[cfg(feature = "postgres")]
mod postgres;
mod troubles;
#[cfg(feature = "postgres")]
mod within;

pub use builder::Builder;
pub use firing::Firing;
pub use handle::Cluster;
pub use hub::Shard;
pub use id::{Entered, Ticket, TimerId};
#[doc(hidden)]
pub use inner::Faults;
pub use letters::DeadLetter;
pub use looking::{Timer, Work};
pub use observer::Observer;
#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub use postgres::ddl;
pub use troubles::Failure;
