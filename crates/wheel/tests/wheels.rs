//! The tests of the wheels, in one program; `oracles.rs` has those that compare with something
//! simpler.
//!
//! A file of tests that counts memory is a program of its own, and has an entry in
//! `Cargo.toml`. Any other is a module here. What it shares with the engine's tests is in
//! `tests/support` and in `fuzz/`.

mod both;
mod hashed;
mod hierarchy;
mod peek;
