//! .
mod error;
mod position;
mod record;
pub mod store;

pub use error::{Error, OpenError, ScheduleError, ScheduleReason, StopError, StoreError, StoreErrorKind};
pub use position::{ParseIdError, Position, TimerId};
pub use record::{DeadLetter, Key, Record};
#[doc(inline)]
pub use store::{RedbOptions, RedbStore, Store, Op};
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use store::SqliteStore;
