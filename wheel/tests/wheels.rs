//! The tests of the wheels, in one program; `oracles.rs` has those that compare with something
//! simpler.
//!
//! A file of tests that counts memory is a program of its own, and has an entry in
//! `Cargo.toml`. Any other is a module here. What it shares with the engine's tests is in their
//! `tests/common/` and in `fuzz/`.

#[path = "../../tests/common/random.rs"]
mod random;

mod both;
mod hashed;
mod hierarchy;
mod peek;
