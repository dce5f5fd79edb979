//! What the models in `tests/` share: how a body is run, payloads that remember what became of
//! them, and a shard with everything around it.
//!
//! The models check the engine's own types, not copies of them. The same bodies serve three
//! worlds: threads of the system, the model checker (`--cfg loom`) and the random scheduler
//! (`--cfg shuttle`). `README.md` tells how to run them, and what each of them has been seen to
//! catch.

mod event;
mod hand;
mod ledger;
mod model;
mod server;
mod world;

pub use event::Event;
pub use hand::{Hand, Timer};
pub use ledger::{Fate, Payload, drops_are_returns, fate, has_run};
pub use model::{TOO_BIG, check, on_thread, refuse_fences, resume, suspendable};
pub use server::{Server, Wanted};
pub use world::{Handler, TICK, World, wheel};

use tickless_core::entry;

/// Frees what waits for readers, if there is none. (The epoch's first pin is late by one.)
pub fn collect() {
    for _ in 0..2 {
        entry::collect();
    }
}
