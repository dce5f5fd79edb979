//! The entry: a timer's memory, its state word, and how the memory is reclaimed.
//!
//! Start with `word` (the states of an entry), then `holder` (what a handle or a producer does with
//! one) and `reaping` (what the reaper does). Entries come and go in blocks (`block`).

mod block;
mod guard;
mod holder;
mod node;
mod reaping;
mod reclaim;
mod word;

pub use block::{Block, BlockList, Given};
pub use guard::Guard;
pub use holder::{Exchange, LetGo, Reset};
pub use node::{Entry, Filed, LEVEL_BITS, Linked};
pub use reclaim::{Published, Reader, after_readers, collect, read, waiting};
pub use word::{DEADLINE_SHIFT, Phase, VERSION_BITS, VERSION_SHIFT, Word};
