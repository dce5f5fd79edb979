//! The inputs that fuzzers found worth keeping, of the targets that are about the wheels alone.

use std::path::Path;

use models::{geometry_model, ops_model};
use support::replay::replay;

fn corpus() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus"))
}

#[test]
fn the_wheels_agree_with_the_oracle_on_the_kept_inputs() {
    replay(corpus(), "wheel_vs_oracle", ops_model::run);
}

#[test]
fn placement_holds_on_the_kept_inputs() {
    replay(corpus(), "geometry", geometry_model::run);
}
