//! Where timers are kept: the trait, and the stores that come with this crate.
//!
//! # How to write another store
//!
//! A store is a sorted list of [`Record`]s, an index of their keys, and a list of dead letters.
//! Implement [`Store`], and have the suite of [`conformance`](crate::conformance) (a feature) test
//! it. `crates/durable/src/store/redb.rs` is the shortest example for an embedded store,
//! `crates/durable/src/store/sqlite/mod.rs` for one with columns.
//!
//! A service has one store and calls it from one thread, so a store needs no lock of its own. It
//! must not answer from a cache that other writers can make stale.
//!
//! ## Stores that several instances share
//!
//! A store is *one list with one writer*, and nothing in the trait says that it is all there is in
//! a database. Where several instances share the work, the database has a number of shards, each a
//! list of its own, and an instance runs one service for each shard that it holds:
//!
//! - *Lease and fence.* Taking a shard's lease is how its store is opened. The store keeps the
//!   lease's number, the fence. [`commit`](Store::commit) compares it with the shard's in the same
//!   transaction, and fails with [`StoreErrorKind::Fenced`] if another instance has the shard by
//!   now. The service then stops firing, and the instance opens the shard again when it gets the
//!   lease back. The keeper of a cluster renews the leases.
//! - *Numbers.* [`begin`](Store::begin) has to return a number that no other instance gets: a row
//!   of the database that counts does.
//! - *Earlier deadlines.* An instance that schedules on a shard of another writes the record and
//!   sends a notification. The holder calls [`look_again`](crate::Durable::look_again) with the
//!   time of that timer, and the service reads the list anew from there.
//!
//! The two that come with this crate differ in what they ask of their servers.
//! `store/postgres/` has a transaction and an order, so the database is all there is.
//! `store/nats/` has neither: a shard is a log with one writer, whose holder keeps an
//! index, and another instance asks the holder.
//!
//! [`Record`]: crate::Record
//! [`StoreErrorKind::Fenced`]: crate::StoreErrorKind::Fenced

mod contract;
mod files;
mod list;
#[cfg(feature = "sqlite")]
mod look;
mod memory;
#[cfg(feature = "nats")]
#[doc(hidden)]
pub mod nats;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod redb;
#[cfg(feature = "sqlite")]
mod sqlite;
pub(crate) mod version;

pub use contract::{Contents, Op, Store};
#[doc(hidden)]
pub use memory::{Disk, Fault, Memory};
#[cfg(feature = "nats")]
#[cfg_attr(docsrs, doc(cfg(feature = "nats")))]
pub use nats::NatsStore;
#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub use postgres::PostgresStore;
pub use redb::{RedbOptions, RedbStore};
#[cfg(feature = "sqlite")]
#[cfg_attr(docsrs, doc(cfg(feature = "sqlite")))]
pub use sqlite::{SqliteOptions, SqliteStore};
