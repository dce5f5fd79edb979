//! What the engine makes of placement: slack, few timers, and the table of buckets.

use std::mem;
use std::time::Duration;

use tickless::{Driver, Engine, ManualClock, When};
use tickless_core::doorbell::{Bell, Doorbell};
use tickless_core::memory::Shared;
use tickless_core::shard::Shard;
use tickless_core::time::{Place, Tick};
use tickless_core::wheel::Wheel;

use crate::draw::Draw;
use crate::lines::{Lines, NONE, numbers};
use crate::scales::between;
use crate::wheels::{deadline, geometry};

/// Calls per engine or shard.
const EACH: usize = 50;

/// Prints them all.
pub(crate) fn print(lines: &mut Lines, draw: &mut Draw, count: usize) {
    for _ in 0..count.div_ceil(EACH) {
        slack(lines, draw);
        places(lines, draw);
        segments(lines, draw);
    }
}

/// Times on a clock that is moved by hand, from early to late.
fn times(draw: &mut Draw, most: u64) -> Vec<u64> {
    let mut times: Vec<u64> = (0..EACH).map(|_| draw.any().min(most)).collect();
    times.sort_unstable();
    times
}

/// When a timer with a slack is due.
fn slack(lines: &mut Lines, draw: &mut Draw) {
    let geometry = geometry(draw, 512);
    let tick_ns = draw.any().max(1);
    let clock = ManualClock::new();
    let builder = Engine::builder().manual_clock(&clock).driver(Driver::Caller).shards(1);
    let builder = builder.slots(geometry.slots()).reach(geometry.reach());
    let engine = builder.tick(Duration::from_nanos(tick_ns)).build().expect("it is in bounds");
    for now_ns in times(draw, 1 << 62) {
        clock.advance(Duration::from_nanos(now_ns) - clock.elapsed());
        let delay_ns = draw.any();
        let slack_ns = if draw.one_in(2) { draw.near_multiple(tick_ns) } else { draw.any() };
        let when = When::after(Duration::from_nanos(delay_ns));
        let when = when.slack(Duration::from_nanos(slack_ns));
        let handle = engine.schedule(when, || ()).expect("the engine takes it");
        // Relative to the present: what the clock calls zero, nobody else can know.
        let due = handle.deadline().map(|due| between(engine.now(), due) + i128::from(now_ns));
        _ = handle.cancel();
        let inputs =
            numbers![tick_ns, geometry.slots(), geometry.reach(), now_ns, delay_ns, slack_ns];
        lines.call("slack", inputs, &[due.unwrap_or(NONE)]);
    }
}

/// Where a producer files a timer, with and without few timers.
fn places(lines: &mut Lines, draw: &mut Draw) {
    let geometry = geometry(draw, 512);
    for few in [0, 1] {
        // SAFETY: nothing is filed, and neither is ever dropped.
        let shared: Shared<u8> = unsafe { Shared::new(1, 1, None) }.with_few(few);
        let doorbell = Doorbell::new(Bell::None);
        let shard = Shard::new(0, geometry, doorbell, Tick::ZERO, &shared);
        for clock in times(draw, Tick::LAST.get()) {
            let clock = shard.begin_turn(Tick::new(clock));
            let now = Tick::new(draw.any());
            let deadline = deadline(draw, &geometry, now.max(clock));
            let place = shard.place(&shared, deadline, now);
            let (slots, reach) = (geometry.slots(), geometry.reach());
            let inputs = numbers![few, slots, reach, clock.get(), now.get(), deadline.get()];
            let outputs = numbers![place.level, place.slot, place.expiration.get()];
            lines.call("shard_place", inputs, outputs);
        }
        mem::forget((shard, shared));
    }
}

/// The bucket that is found for a level and slot.
fn segments(lines: &mut Lines, draw: &mut Draw) {
    let geometry = geometry(draw, 1 << 12);
    let wheel: Wheel<(u8, u32)> = Wheel::new(geometry, |level, slot| (level, slot));
    for _ in 0..EACH {
        let level = draw.within(1, u64::from(geometry.levels())) as u8;
        let slot = draw.within(0, u64::from(geometry.slots()) - 1) as u32;
        let place = Place { level, slot, expiration: Tick::ZERO };
        let Ok(&(found_level, found_slot)) = wheel.bucket(place) else { continue };
        let inputs = numbers![geometry.slots(), level, slot];
        lines.call("bucket", inputs, numbers![found_level, found_slot]);
    }
}
