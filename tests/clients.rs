//! The tests in which the programs of others talk over sockets, with timers of ours. Those
//! programs are large, so that stages of `ci/` build neither them nor this. `tests/suite.rs`
//! has the other tests.

mod future_hyper;
mod future_quinn;
#[cfg(feature = "tower")]
mod future_tower_served;
