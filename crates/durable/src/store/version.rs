//! What is told of a store that another version of this crate has written.
//!
//! Each kind of store has a number for its layout, and steps from one number to the next. A step is
//! one transaction, and nobody takes one who was not asked to.
//!
//! *Tested by*: `tests/durable/stores.rs`, `tests/durable/postgres/versions.rs`,
//! `tests/durable/nats/versions.rs`, with stores that earlier versions have written.

use crate::error::{StoreError, StoreErrorKind};

/// What may be made of a place where instances meet.
#[cfg(any(feature = "postgres", feature = "nats"))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Makes {
    /// Everything, if there is nothing.
    pub(crate) new: bool,
    /// What is of an earlier version becomes one of this.
    pub(crate) newer: bool,
}

/// `first` is the number of the first layout that can be brought up to `wanted`.
pub(crate) fn wrong_version(what: &str, found: i64, first: i64, wanted: i64) -> StoreError {
    let has = format!("{what} has version {found}");
    let message = if found > wanted {
        format!("{has}, which is later than {wanted}: use the program that has written it")
    } else if found < first {
        format!("{has}, which is from before any release")
    } else {
        format!(
            "{has}, and this program needs {wanted}: end what uses it, and run `tickless-durable \
             migrate` on it, or open it with `migrate(true)`"
        )
    };
    StoreError::new(StoreErrorKind::Version, message)
}
