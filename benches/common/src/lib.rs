//! What several benches share. Without features this is arithmetic and threads alone, for benches
//! that need no more.

pub mod delays;
pub mod rounds;
#[cfg(feature = "sleeps")]
pub mod runtime;
#[cfg(feature = "sleeps")]
pub mod sleeps;
#[cfg(feature = "suite")]
pub mod suite;
pub mod threads;
pub mod turns;
