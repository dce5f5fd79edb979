//! The tests that compute and compare: with oracles, with tables and traces that were written
//! down, with what should be printed. They have one thread, and do nothing to memory that
//! others do not do, so that stages of `ci/` leave them out. `tests/suite.rs` has the others,
//! and says what is a program of its own.

#[path = "../fuzz/builder_model.rs"]
mod builder_model;
#[path = "common/mod.rs"]
mod common;
#[path = "../fuzz/engine_model/mod.rs"]
mod engine_model;
#[path = "common/histories.rs"]
mod histories;
#[path = "common/hold.rs"]
mod hold;
#[path = "common/keyed_timers.rs"]
mod keyed_timers;
#[path = "common/operation.rs"]
mod operation;
#[path = "common/planned.rs"]
mod planned;
#[path = "common/random.rs"]
mod random;
#[path = "common/replay.rs"]
mod replay;
#[path = "../fuzz/shard_model.rs"]
mod shard_model;
#[path = "common/token.rs"]
mod token;
#[path = "../fuzz/when.rs"]
mod when;

mod backoff;
mod citizens;
mod corpus;
mod engine_oracle;
mod errors;
mod golden_trace;
mod keyed_oracle;
mod netty_oracle;
mod periodic_oracle;
mod purgatory_oracle;
mod scope_oracle;
mod shard_clocks;
mod tables;
