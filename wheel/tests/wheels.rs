//! The tests of the wheels, in one program.
//!
//! A file of tests that counts memory is a program of its own, and has an entry in `Cargo.toml`.
//! Any other is a module here. What it shares with the engine's tests is in their `tests/common/`
//! and in `fuzz/`.

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../fuzz/geometry_model.rs"]
mod geometry_model;
#[path = "../../tests/common/histories.rs"]
mod histories;
#[path = "../../tests/common/hold.rs"]
mod hold;
#[path = "../../fuzz/ops_model.rs"]
mod ops_model;
#[path = "../../tests/common/random.rs"]
mod random;
#[path = "../../tests/common/replay.rs"]
mod replay;
#[path = "../../fuzz/when.rs"]
mod when;

mod both;
mod corpus;
mod golden_placement;
mod hashed;
mod hierarchy;
mod oracle;
mod peek;
