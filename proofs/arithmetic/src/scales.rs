//! Ticks, the scale of nanoseconds and ticks, and what rounds times to other units.

use std::time::{Duration, Instant};

use tickless_c::tickless_timeout_ms;
use tickless_core::time::{Scale, Tick, left_of_period, next_on_grid, saturating_ns};

use crate::draw::Draw;
use crate::lines::{Lines, numbers, or_none};

/// Prints them all.
pub(crate) fn print(lines: &mut Lines, draw: &mut Draw, count: usize) {
    for _ in 0..count {
        scale(lines, draw);
        ticks(lines, draw);
        grid(lines, draw);
        let ns = draw.near_multiple(1_000_000);
        lines.call("timeout_ms", numbers![ns], numbers![tickless_timeout_ms(ns)]);
    }
}

/// A scale, and conversions around its own limits.
fn scale(lines: &mut Lines, draw: &mut Draw) {
    let tick_ns = draw.any().max(1);
    let Some(scale) = Scale::new(Duration::from_nanos(tick_ns)) else { return };
    // Debug shows the fields, which nobody else needs.
    let text = format!("{scale:?}");
    let field = |name: &str| -> u64 {
        let (_, rest) = text.split_once(name).expect("a scale has that field");
        let digits: String = rest.chars().skip(2).take_while(char::is_ascii_digit).collect();
        digits.parse().expect("the field is a number")
    };
    let below_ns = field("below_ns");
    lines.call("scale", numbers![tick_ns], numbers![field("reciprocal"), field("shift"), below_ns]);
    let beside_limit = below_ns.wrapping_add(draw.below(5)).wrapping_sub(2);
    for ns in [draw.near_multiple(tick_ns), draw.any(), beside_limit] {
        lines.call("floor", numbers![tick_ns, ns], numbers![scale.floor(ns).get()]);
        lines.call("ceil", numbers![tick_ns, ns], numbers![scale.ceil(ns).get()]);
        let (secs, nanos) = duration(draw);
        let after = scale.ceil_after(ns, Duration::new(secs, nanos));
        lines.call("ceil_after", numbers![tick_ns, ns, secs, nanos], numbers![after.get()]);
    }
    let tick = Tick::new(draw.any());
    let inputs = numbers![tick_ns, tick.get()];
    lines.call("start_ns", inputs, &[or_none(scale.start_ns(tick))]);
}

fn ticks(lines: &mut Lines, draw: &mut Draw) {
    let (secs, nanos) = duration(draw);
    let ns = saturating_ns(Duration::new(secs, nanos));
    lines.call("saturating_ns", numbers![secs, nanos], numbers![ns]);
    let (n, more) = (draw.any(), draw.any());
    let tick = Tick::new(n);
    lines.call("tick", numbers![n], numbers![tick.get()]);
    let sum = tick.saturating_add(more).get();
    lines.call("tick_add", numbers![tick.get(), more], numbers![sum]);
    let difference = tick.saturating_sub(more).get();
    lines.call("tick_sub", numbers![tick.get(), more], numbers![difference]);
}

fn grid(lines: &mut Lines, draw: &mut Draw) {
    let (last_ns, period_ns) = (draw.any(), draw.any().max(1));
    let earliest_ns = match draw.below(3) {
        0 => last_ns.saturating_add(draw.near_multiple(period_ns)),
        _ => draw.any(),
    };
    let (next_ns, missed) = next_on_grid(last_ns, period_ns, earliest_ns);
    let inputs = numbers![last_ns, period_ns, earliest_ns];
    lines.call("next_on_grid", inputs, numbers![next_ns, missed]);
    let (secs, nanos) = duration(draw);
    let period = Duration::new(secs, nanos).max(Duration::from_nanos(1));
    let (secs, nanos) = duration(draw);
    let late = Duration::new(secs, nanos);
    let left = left_of_period(period, late);
    lines.call("left_of_period", &[ns_of(period), ns_of(late)], &[ns_of(left)]);
}

fn duration(draw: &mut Draw) -> (u64, u32) {
    (draw.any(), draw.within(0, 999_999_999) as u32)
}

fn ns_of(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).expect("2^64 seconds are less than 2^127 ns")
}

/// How far `to` is after `from`, or before, in nanoseconds.
pub(crate) fn between(from: Instant, to: Instant) -> i128 {
    match to.checked_duration_since(from) {
        Some(after) => ns_of(after),
        None => -ns_of(from - to),
    }
}
