//! Clocks that threads carry on, waits in user space, and heartbeats.

use std::time::Duration;

use tickless_core::reaper::Spin;
use tickless_core::reaper::spin::{SpinOrSleep, WHOLE, WINDOW_NS};
use tickless_core::time::thread_clock::{MEASURE_CYCLES, READ_CYCLES, Reading};
use tickless_core::time::{Clock, ManualClock, Scale, ThreadClock};
use tickless_sync::protocol::pulse::{Pulse, Verdict};

use crate::draw::Draw;
use crate::lines::{Lines, NONE, numbers, or_none};

/// Prints them all.
pub(crate) fn print(lines: &mut Lines, draw: &mut Draw, count: usize) {
    for _ in 0..count {
        thread_clock(lines, draw);
        plans(lines, draw);
        pulse(lines, draw);
    }
}

/// A thread clock that learns a rate, is read, and is set again.
fn thread_clock(lines: &mut Lines, draw: &mut Draw) {
    // About as much time as passes in so many cycles, or any.
    let cycles = match draw.below(3) {
        0 => draw.any(),
        _ => draw.within(MEASURE_CYCLES.start() / 2, MEASURE_CYCLES.end() * 2),
    };
    let speed = draw.within(1, 40);
    let now_ns = match draw.below(3) {
        0 => draw.any() >> 1,
        1 => cycles / speed,
        _ => cycles.saturating_mul(speed) >> 1,
    };
    let takes = draw.within(0, 2 * READ_CYCLES);
    let start = draw.any();
    let before_cycles = start.wrapping_add(cycles);
    let scale = Scale::new(Duration::from_millis(1)).expect("a tick has a width");
    let mut watch = ThreadClock::new(scale);
    watch.learn(&Reading { before_cycles: start, now_ns: 0, after_cycles: start });
    watch.learn(&Reading {
        before_cycles,
        now_ns,
        after_cycles: before_cycles.wrapping_add(takes),
    });
    // Debug shows the fields, which nobody else needs.
    let text = format!("{watch:?}");
    let field = |name: &str| -> i128 {
        let (_, rest) = text.split_once(name).expect("a thread clock has that field");
        let digits: String = rest.chars().skip(2).take_while(char::is_ascii_digit).collect();
        digits.parse().expect("the field is a number")
    };
    let (rate, lasts) = (field("rate"), field("lasts_cycles"));
    lines.call("learn", numbers![now_ns, cycles, takes], &[rate, lasts]);
    if lasts == 0 {
        return;
    }
    let lasts = lasts as u64;
    let passed = draw.within(0, lasts).saturating_add(draw.below(2));
    let shown = watch.shown(before_cycles.wrapping_add(passed));
    lines.call("shown", numbers![now_ns, rate, lasts, passed], &[or_none(shown)]);
    let passed = draw.any();
    let carried = (u128::from(passed) * rate as u128) >> 32;
    let beside = u64::try_from(carried).unwrap_or(u64::MAX).saturating_add(draw.below(4));
    // No system's clock runs for 2^63 ns.
    let later_ns = if draw.one_in(4) { draw.any() } else { now_ns.saturating_add(beside) };
    let later_ns = later_ns.min(1 << 63);
    let after_cycles = before_cycles.wrapping_add(passed);
    watch.hold_against(&Reading { before_cycles: after_cycles, now_ns: later_ns, after_cycles });
    let is_over = watch.shown(after_cycles).is_none();
    lines.call("went_slow", numbers![now_ns, rate, passed, later_ns], numbers![is_over]);
}

/// Two plans of a reaper, with a wait in user space in between.
fn plans(lines: &mut Lines, draw: &mut Draw) {
    let share = draw.within(0, WHOLE);
    let before_ns = draw.any();
    let mut spin = Spin::before(Duration::from_nanos(before_ns), share as f64 / WHOLE as f64);
    let plan = |now_ns, due_ns, spin: &mut Spin| match spin.plan(now_ns, due_ns) {
        SpinOrSleep::Spin(until_ns) => [1, i128::from(until_ns)],
        SpinOrSleep::Sleep(until_ns) => [0, i128::from(until_ns)],
    };
    let first_ns = draw.any();
    let first_due_ns = draw.any();
    let first = plan(first_ns, first_due_ns, &mut spin);
    // All that it has, or a part of it.
    let credit_ns = WINDOW_NS * share / WHOLE;
    let spent_ns = draw.within(0, credit_ns + 1);
    let clock = ManualClock::new();
    clock.advance(Duration::from_nanos(spent_ns));
    spin.wait(&Clock::manual(&clock), 0, spent_ns, || false);
    let then_ns = first_ns.saturating_add(if draw.one_in(2) { draw.below(2) } else { draw.any() });
    // What is left, or a nanosecond more or less.
    let left_ns = credit_ns.saturating_sub(spent_ns).saturating_add(1);
    let then_due_ns = match draw.below(3) {
        0 => draw.any(),
        1 => then_ns.saturating_add(draw.any() >> 32),
        _ => then_ns.saturating_add(left_ns.saturating_sub(draw.below(3))),
    };
    let then = plan(then_ns, then_due_ns, &mut spin);
    let inputs = numbers![share, before_ns, first_ns, first_due_ns, spent_ns, then_ns, then_due_ns];
    lines.call("plans", inputs, &[first, then].concat());
}

/// A pulse with one more beat, and what its timer finds.
fn pulse(lines: &mut Lines, draw: &mut Draw) {
    let (first_ns, timeout_ns) = (draw.any(), draw.any());
    let beat_ns = if draw.one_in(2) { draw.any() } else { first_ns.saturating_add(1) };
    let now_ns = match draw.one_in(2) {
        true => draw.any(),
        false => beat_ns.saturating_add(timeout_ns).saturating_sub(draw.below(2)),
    };
    let pulse = Pulse::new(first_ns);
    pulse.beat(beat_ns, timeout_ns);
    let until = match pulse.expire(now_ns, timeout_ns) {
        Verdict::Until(ns) => i128::from(ns),
        Verdict::Silent => NONE,
        Verdict::Over => NONE - 1,
    };
    lines.call("expire", numbers![first_ns, beat_ns, now_ns, timeout_ns], &[until]);
}
