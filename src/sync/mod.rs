//! The one door to the primitives that threads share.
//!
//! Everything above imports atomics, cells, locks and threads from here, so that one switch
//! (`--cfg loom`) puts the whole engine on the model checker's versions of them.
//!
//! *Invariant*: no other file of the crate names `std::sync`, `std::thread` or `loom`
//! (`tests/tidy.rs` looks).

mod padded;
mod prefetch;

pub use padded::Padded;
pub use prefetch::prefetch;

#[cfg(not(loom))]
mod real;
#[cfg(not(loom))]
pub use real::*;

#[cfg(loom)]
mod modelled;
#[cfg(loom)]
pub use modelled::*;

#[cfg(tsan)]
mod watched;
#[cfg(tsan)]
pub use watched::Mutex;
