//! What a thread keeps of each engine that it uses.
//!
//! - `cache` is a thread's part of one engine, and the way to it: one comparison where the thread
//!   used the engine last, else a table.
//! - `kept` is that table, by the engines' numbers.
//! - `registry` gives out the numbers, and finds an engine by its number.

mod cache;
mod kept;
mod registry;

pub(super) use cache::{Lent, Producers, ThreadCache, count_stop, of, of_number};
pub(crate) use registry::Registry;
pub(super) use registry::{ENGINES, is_inherited, new_number};
