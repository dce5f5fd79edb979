//! The tests that count memory, one at a time: each begins with `alone()`. Those that need a process
//! without any other test, the harness's waiting threads included, are in `tests/alone`.

mod engine;
mod foreign;
mod keyed;
mod purgatory;
mod readers;
mod segments;
mod settled;
mod sleeps;

use support::counting::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
