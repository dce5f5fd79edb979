//! The names of other timers, with timers of tickless behind them. Code that is written for one of
//! these needs another `use` only:
//!
//! | before | after |
//! |---|---|
//! | `use tokio::time::..` | `use peers::tokio::time::..` |
//! | `use tokio_util::time::..` | `use peers::tokio_util::time::..` |
//! | `use futures_timer::Delay` | `use peers::futures_timer::Delay` |
//! | `use async_io::Timer` | `use peers::async_io::Timer` |
//!
//! Each file is short and stands for itself, to be copied. `engines` says on which engine the
//! timers run; a program of its own replaces that by the engine that it has, or by the ambient one.
//!
//! `ci/peers.sh` runs the tests that these crates have published with these names.

pub mod async_io;
mod engines;
pub mod futures_timer;
pub mod std_time;
pub mod tokio;
pub mod tokio_util;

pub use engines::block_on;
