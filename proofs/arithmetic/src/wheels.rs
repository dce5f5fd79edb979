//! Placement, and the wheels for one thread.

use tickless_wheel::{Geometry, HashedWheel, MAX_SLOTS, Tick, Wheel};

use crate::draw::Draw;
use crate::lines::{Lines, numbers, or_none};

/// Prints them all.
pub(crate) fn print(lines: &mut Lines, draw: &mut Draw, count: usize) {
    for _ in 0..count {
        let geometry = geometry(draw, MAX_SLOTS);
        let levels = geometry.levels();
        let mut outputs: Vec<i128> = vec![levels.into()];
        outputs.extend((1..=levels).map(|level| i128::from(geometry.width(level))));
        lines.call("geometry", numbers![geometry.slots(), geometry.reach()], &outputs);
        for _ in 0..3 {
            place(lines, draw, &geometry);
        }
        best_within(lines, draw, &geometry);
        hierarchical(lines, draw);
        hashed(lines, draw);
    }
}

/// Slots and reach of all kinds; often powers of two, and often the same.
pub(crate) fn geometry(draw: &mut Draw, most: u32) -> Geometry {
    let most = u64::from(most);
    let slots = match draw.below(3) {
        0 => 1 << draw.within(1, u64::from(most.ilog2())),
        _ => draw.within(2, most),
    };
    let reach = match draw.below(4) {
        0 => slots,
        1 => 1 << draw.within(1, u64::from(slots.ilog2())),
        _ => draw.within(2, slots),
    };
    Geometry::new(slots as u32, reach as u32).expect("both are in bounds")
}

fn tick(draw: &mut Draw) -> Tick {
    Tick::new(draw.any())
}

/// A deadline at or beside a bucket's edge, around the reach of a level, seen from `from`.
pub(crate) fn deadline(draw: &mut Draw, geometry: &Geometry, from: Tick) -> Tick {
    if draw.one_in(4) {
        return tick(draw);
    }
    let width = geometry.width(draw.within(1, u64::from(geometry.levels())) as u8);
    let buckets = match draw.below(3) {
        0 => draw.within(0, 2),
        1 => u64::from(geometry.reach()) - draw.below(2),
        _ => u64::from(geometry.slots()).saturating_sub(draw.below(2)),
    };
    let at = from.get().saturating_add(buckets.saturating_mul(width));
    let edge = if draw.one_in(2) { at - at % width } else { at };
    Tick::new(edge.saturating_add(draw.below(3)).saturating_sub(1))
}

fn place(lines: &mut Lines, draw: &mut Draw, geometry: &Geometry) {
    let from = tick(draw);
    let deadline = deadline(draw, geometry, from);
    let place = geometry.place(deadline, from);
    let (slots, reach) = (geometry.slots(), geometry.reach());
    let outputs = numbers![place.level, place.slot, place.expiration.get()];
    lines.call("place", numbers![slots, reach, deadline.get(), from.get()], outputs);
    let level = draw.within(1, u64::from(geometry.levels()));
    let place = geometry.place_on(from, level as u8);
    let outputs = numbers![place.slot, place.expiration.get()];
    lines.call("place_on", numbers![slots, reach, from.get(), level], outputs);
}

fn best_within(lines: &mut Lines, draw: &mut Draw, geometry: &Geometry) {
    let (from, first) = (tick(draw), tick(draw));
    let last = if draw.one_in(2) { deadline(draw, geometry, first) } else { tick(draw) };
    let best = geometry.best_within(first, last, from);
    let ticks = [first, last, from].map(|tick| i128::from(tick.get()));
    let mut inputs = vec![geometry.slots().into(), geometry.reach().into()];
    inputs.extend(ticks);
    lines.call("best_within", &inputs, numbers![best.get()]);
}

/// A few timers in a wheel, a leap of the clock, and when the next bucket expires.
fn hierarchical(lines: &mut Lines, draw: &mut Draw) {
    let geometry = geometry(draw, 1 << 12);
    let start = tick(draw).min(Tick::LAST);
    let mut wheel = Wheel::with_start(geometry, start);
    let deadlines: Vec<Tick> = (0..3).map(|_| deadline(draw, &geometry, start)).collect();
    deadlines.iter().for_each(|&at| _ = wheel.insert(at, ()));
    let next = wheel.next_expiration();
    // Often to the time at which something happens, or to just before it.
    let now = match next {
        Some(next) if draw.one_in(2) => next.saturating_sub(draw.below(2)),
        _ => deadline(draw, &geometry, start),
    };
    let now = now.max(start).min(Tick::LAST);
    let fired = wheel.advance(now, |_, _, ()| {});
    let then = wheel.next_expiration();
    wheel.check();
    let mut inputs: Vec<i128> = vec![geometry.slots().into(), geometry.reach().into()];
    inputs.extend([start, now].into_iter().chain(deadlines).map(|at| i128::from(at.get())));
    let outputs = [or_none(next.map(Tick::get)), fired as i128, or_none(then.map(Tick::get))];
    lines.call("wheel", &inputs, &outputs);
}

/// The same in a hashed wheel with one timer, and its rounds.
fn hashed(lines: &mut Lines, draw: &mut Draw) {
    let slots = draw.within(2, 300) as u32;
    let start = tick(draw).min(Tick::LAST);
    let mut wheel = HashedWheel::with_start(slots, start).expect("the slots are in bounds");
    let ahead = draw.within(0, 4 * u64::from(slots));
    let deadline =
        if draw.one_in(3) { tick(draw) } else { start.saturating_add(ahead).saturating_sub(1) };
    let key = wheel.insert(deadline, ());
    let rounds = wheel.rounds(key);
    let now = start.saturating_add(draw.within(0, 3 * u64::from(slots))).min(Tick::LAST);
    let fired = wheel.advance(now, |_, _, ()| {});
    let left = wheel.rounds(key);
    wheel.check();
    let inputs = numbers![slots, start.get(), deadline.get(), now.get()];
    lines.call("hashed", inputs, &[or_none(rounds), fired as i128, or_none(left)]);
}
