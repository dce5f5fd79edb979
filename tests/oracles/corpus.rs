//! The inputs that fuzzers found worth keeping, of the targets that are about the engine.

use std::path::Path;

use models::engine_model::case::{Case, Free};
use models::{builder_model, engine_model, shard_model};
use support::replay::replay;

fn corpus() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus"))
}

/// What the fuzz target makes of what it draws.
fn case((free, case): &(Option<Free>, Case)) -> Case {
    let mut case = case.clone();
    case.config.free = *free;
    case
}

#[test]
fn the_engine_agrees_with_the_oracle_on_the_kept_inputs() {
    replay(corpus(), "engine", |drawn| engine_model::run(&case(drawn)));
    replay(corpus(), "engine", |drawn| engine_model::run_in_crowds(&case(drawn)));
}

#[test]
fn a_builder_builds_what_works_or_says_why_not_on_the_kept_inputs() {
    replay(corpus(), "builder", builder_model::run);
}

#[test]
fn a_shard_agrees_with_the_oracle_on_the_kept_inputs() {
    replay(corpus(), "shard_clocks", shard_model::run);
    replay(corpus(), "shard_clocks", shard_model::run_in_crowds);
}
