#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "postgres", feature = "nats"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "postgres", feature = "nats"))))]
pub mod cluster;
#[cfg(feature = "conformance")]
#[cfg_attr(docsrs, doc(cfg(feature = "conformance")))]
pub mod conformance;
mod error;
mod events;
mod foreign;
mod payload;
mod position;
mod promise;
mod record;
mod service;
pub mod store;

#[cfg(any(feature = "postgres", feature = "nats"))]
#[doc(inline)]
pub use cluster::Cluster;
pub use error::{
    Error, OpenError, ScheduleError, ScheduleReason, StopError, StoreError, StoreErrorKind,
};
#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
pub use payload::Json;
pub use payload::Payload;
pub use position::{ParseIdError, Position, TimerId};
pub use promise::{Reply, Ticket};
pub use record::{DeadLetter, FailedAttempt, Key, Record};
#[doc(hidden)]
pub use service::ByHand;
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use service::Metrics;
pub use service::{Builder, Cancelled, Durable, Firing, Limits, Misfire, Retry, Stats, every};
#[doc(inline)]
pub use store::{Contents, Op, RedbOptions, RedbStore, Store};
#[cfg(feature = "sqlite")]
#[cfg_attr(docsrs, doc(cfg(feature = "sqlite")))]
#[doc(inline)]
pub use store::{SqliteOptions, SqliteStore};
pub use tickless::periodic::{Backoff, Jitter};
