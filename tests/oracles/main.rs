//! The tests that compute and compare: with oracles, with tables and traces that were written
//! down, with what should be printed. They have one thread, and do nothing to memory that
//! others do not do, so that stages of `ci/` leave them out. `tests/README.md` has the other
//! programs.

mod backoff;
mod citizens;
mod corpus;
mod delay_queue;
mod engine;
mod errors;
mod golden_trace;
mod keyed;
mod periodic;
mod purgatory;
mod scope;
mod shard_clocks;
mod tables;
mod ttl;
