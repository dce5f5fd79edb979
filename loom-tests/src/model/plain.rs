//! Bodies on threads of the system.

#[path = "../../../tests/common/mod.rs"]
mod common;

/// Runs of each body.
const RUNS: u64 = 100;

pub(super) fn run(_bound: usize, body: impl Fn() + Send + Sync + 'static) {
    for _ in 0..common::scaled(RUNS) {
        body();
    }
}
