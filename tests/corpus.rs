//! Replays the fuzzing corpus: what fuzzers found worth keeping, as an ordinary test.

use std::fs;
use std::path::Path;

use crate::builder_model;
use crate::engine_model;
use crate::geometry_model;
use crate::ops_model;
use crate::shard_model;
use arbitrary::{Arbitrary, Unstructured};

/// Runs `body` on every input kept for `target`, decoded as the fuzz target decodes it.
fn replay<C: for<'a> Arbitrary<'a>>(target: &str, body: fn(&C)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let inputs = fs::read_dir(&folder).expect("a corpus is part of the repository");
    let mut replayed = 0;
    for input in inputs {
        let bytes = fs::read(input.expect("a readable folder").path()).expect("a readable file");
        if let Ok(case) = C::arbitrary_take_rest(Unstructured::new(&bytes)) {
            body(&case);
            replayed += 1;
        }
    }
    assert!(replayed >= 10, "only {replayed} inputs of {} could be decoded", folder.display());
}

#[test]
fn the_wheel_agrees_with_the_oracle_on_the_kept_inputs() {
    replay("wheel_vs_oracle", ops_model::run);
}

#[test]
fn placement_holds_on_the_kept_inputs() {
    replay("geometry", geometry_model::run);
}

#[test]
fn the_engine_agrees_with_the_oracle_on_the_kept_inputs() {
    replay("engine_ops", engine_model::run);
}

#[test]
fn a_builder_builds_what_works_or_says_why_not_on_the_kept_inputs() {
    replay("builder", builder_model::run);
}

#[test]
fn a_shard_agrees_with_the_oracle_on_the_kept_inputs() {
    replay("shard_clocks", shard_model::run);
}
