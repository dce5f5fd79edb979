//! Histories of real threads on the engine, and a check that they are linearizable.
//!
//! Several threads use one engine at the same time and note when each call began, when it returned
//! and what it returned. Such a *history* is linearizable if there is an order of its operations,
//! one at a time, that a sequential model accepts, and in which no operation comes before one that
//! had returned when it began.
//!
//! - `timeline` has the stamps, `history` the operations, `checker` the search for an order.
//! - `timer`, `waited` and `key` are the models: of a plain timer, of a timer whose task can be
//!   waited for, and of a key of `tickless-keyed`. Each is written from the public docs.
//! - `handles` (with `scenario`), `waits` and `keys` drive the engine and record histories. `faults`
//!   are the bugs that they can plant between the engine and the record.
//! - `driver` runs many histories, `report` counts outcomes and overlaps, `random` makes the
//!   programs of the threads.
//!
//! *Tested by*: `proofs/histories/tests`, of which `planted.rs` shows that faults are found.

pub mod checker;
pub mod driver;
pub mod faults;
pub mod handles;
pub mod history;
pub mod key;
pub mod keys;
pub mod random;
pub mod report;
pub mod scenario;
pub mod timeline;
pub mod timer;
pub mod waited;
pub mod waits;
