//! Thread caches: what a thread keeps of each engine that it uses.
//!
//! - `cache` is a thread's cache of one engine, and how it is found: by one comparison if the
//!   thread used the engine last, else in a table.
//! - `kept` is that table, by engine number.
//! - `registry` gives out the numbers, and finds an engine by its number.

mod cache;
mod kept;
mod registry;

pub(super) use cache::{Lent, Producers, ThreadCache, count_stop, of, of_number};
pub(crate) use registry::Registry;
pub(super) use registry::{ENGINES, is_inherited, new_number};
