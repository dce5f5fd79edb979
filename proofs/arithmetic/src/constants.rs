//! The constants that the formulas take from the code.

use tickless_core::entry::{DEADLINE_SHIFT, LEVEL_BITS, VERSION_BITS, VERSION_SHIFT};
use tickless_core::memory::balance::DEAD_AT_LEAST;
use tickless_core::reaper::{SUB_BITS, spin, stuck};
use tickless_core::shard::NEAR;
use tickless_core::time::{MAX_LEVELS, MAX_SHARDS, MAX_SLOTS, Tick, thread_clock};
use tickless_core::wheel::SEGMENT;

use crate::lines::Lines;

/// Prints them all.
pub(crate) fn print(lines: &mut Lines) {
    lines.constant("TICK_BITS", Tick::BITS);
    lines.constant("NEVER", Tick::NEVER.get());
    lines.constant("LAST", Tick::LAST.get());
    lines.constant("MAX_LEVELS", MAX_LEVELS as u64);
    lines.constant("MAX_SLOTS", MAX_SLOTS);
    lines.constant("MAX_SHARDS", MAX_SHARDS as u64);
    lines.constant("NEAR", NEAR);
    lines.constant("SEGMENT", SEGMENT);
    lines.constant("VERSION_SHIFT", VERSION_SHIFT);
    lines.constant("VERSION_BITS", VERSION_BITS);
    lines.constant("DEADLINE_SHIFT", DEADLINE_SHIFT);
    lines.constant("LEVEL_BITS", LEVEL_BITS);
    lines.constant("LASTS_NS", thread_clock::LASTS_NS);
    lines.constant("RATE_BITS", thread_clock::RATE_BITS);
    lines.constant("RATE_LEAST", *thread_clock::RATES.start());
    lines.constant("RATE_MOST", *thread_clock::RATES.end());
    lines.constant("MEASURE_LEAST", *thread_clock::MEASURE_CYCLES.start());
    lines.constant("MEASURE_MOST", *thread_clock::MEASURE_CYCLES.end());
    lines.constant("READ_CYCLES", thread_clock::READ_CYCLES);
    lines.constant("SLEW_LEAST", thread_clock::SLEW.0);
    lines.constant("SLEW_MOST", thread_clock::SLEW.1);
    lines.constant("MARGIN", thread_clock::MARGIN);
    lines.constant("WINDOW_NS", spin::WINDOW_NS);
    lines.constant("WHOLE", spin::WHOLE);
    lines.constant("DEAD_AT_LEAST", DEAD_AT_LEAST);
    lines.constant("STUCK_SHARD_BITS", stuck::SHARD_BITS);
    lines.constant("SUB_BITS", SUB_BITS);
}
