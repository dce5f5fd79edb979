//! The tests that count memory, one at a time: each begins with `alone()`. Those for which a thread
//! that waits for its turn is one too many are in `tests/alone`.

mod engine;
mod foreign;
mod keyed;
mod purgatory;
mod readers;
mod runtimes;
mod segments;
mod settled;
mod sleeps;

use support::counting::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
