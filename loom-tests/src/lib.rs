//! What the models in `tests/` share: how a model is run, payloads that remember what became of
//! them, and a shard with everything around it.
//!
//! The models check the engine's own types, not copies of them. Without `--cfg loom` this crate
//! is empty. `README.md` tells how to run the models, and what each of them has been seen to
//! catch.
#![cfg(loom)]

mod ledger;
mod model;
mod world;

pub use ledger::{Fate, Payload, fate, has_run};
pub use model::check;
pub use world::{Hand, Timer, World, wheel};
