//! Words that have several fields, and numbers for decisions.

use tickless_core::doorbell::{Bell, Doorbell, Hook};
use tickless_core::entry::{Filed, Phase, Word};
use tickless_core::memory::balance::{are_a_share, are_too_many};
use tickless_core::reaper::{Latenesses, Seen, StuckThreads};
use tickless_core::time::{MAX_LEVELS, MAX_SHARDS, Tick};

use crate::draw::Draw;
use crate::lines::{Lines, numbers};

const PHASES: [Phase; 4] = [Phase::Pending, Phase::Vacant, Phase::Fired, Phase::Stopped];

/// Prints them all.
pub(crate) fn print(lines: &mut Lines, draw: &mut Draw, count: usize) {
    let word = &mut Word::FREE.pending(Tick::ZERO, false);
    let histogram = (&Latenesses::new(), &mut Seen::nothing());
    let doorbell = &Doorbell::new(Bell::Hook(Hook::new(|| {})));
    let stuck = &StuckThreads::of(1);
    for _ in 0..count {
        step(lines, draw, word);
        filed(lines, draw);
        lateness(lines, draw, histogram.0, histogram.1);
        ring(lines, draw, doorbell);
        dead(lines, draw);
        let (shard, since_ns) = (draw.within(0, MAX_SHARDS as u64), draw.any());
        stuck.begin(0, shard as usize, since_ns);
        let told: Vec<_> = stuck.iter().collect();
        let &[(_, told_shard, told_ns)] = &*told else { panic!("one thread is stuck") };
        lines.call("stuck", numbers![shard, since_ns], &[told_shard as i128, told_ns.into()]);
    }
}

/// One change of a state word, and what is in it then.
fn step(lines: &mut Lines, draw: &mut Draw, word: &mut Word) {
    let before = word.bits();
    let deadline = Tick::new(draw.any());
    let number = draw.below(6);
    let (name, input) = match number {
        0 => ("pending", i128::from(deadline.get()) * 2 + i128::from(draw.one_in(2))),
        1 => ("with_phase", i128::from(draw.below(4))),
        2 => ("with_deadline", deadline.get().into()),
        3 => ("refiled", 0),
        4 => ("unlisted", 0),
        _ => ("unheld", 0),
    };
    *word = match number {
        0 => word.pending(deadline, input % 2 == 1),
        1 => word.with_phase(PHASES[input as usize]),
        2 => word.with_deadline(deadline),
        3 => word.refiled(),
        4 => word.unlisted(),
        _ => word.unheld(),
    };
    lines.call(name, &[before.into(), input], numbers![word.bits()]);
    let phase = PHASES.iter().position(|phase| *phase == word.phase()).expect("one of four");
    let flags = [word.in_list(), word.is_held(), word.is_waiting(), word.is_stranded()];
    let mut outputs = vec![word.deadline().get().into(), phase as i128];
    outputs.extend(flags.map(i128::from));
    lines.call("fields", numbers![word.bits()], &outputs);
}

/// A place in one number and back.
fn filed(lines: &mut Lines, draw: &mut Draw) {
    let level = draw.within(0, MAX_LEVELS as u64) as u8;
    let expiration = Tick::new(draw.any());
    let bits = Filed { level, expiration }.pack();
    let back = Filed::unpack(bits);
    let outputs = numbers![bits, back.level, back.expiration.get()];
    lines.call("filed", numbers![level, expiration.get()], outputs);
}

/// The upper bound of the bucket that counts a lateness.
fn lateness(lines: &mut Lines, draw: &mut Draw, latenesses: &Latenesses, seen: &mut Seen) {
    let ns = draw.any();
    latenesses.record(ns, 1);
    let mut upper = 0;
    latenesses.report_new(seen, |bound, _| upper = bound.as_nanos() as i128);
    lines.call("upper_ns", numbers![ns], &[upper]);
}

/// Whether a producer rings.
fn ring(lines: &mut Lines, draw: &mut Draw, doorbell: &Doorbell) {
    let wakes_at = Tick::new(draw.any());
    doorbell.publish(wakes_at);
    let near = wakes_at.saturating_add(1).saturating_sub(draw.below(3));
    let due = if draw.one_in(2) { near } else { Tick::new(draw.any()) };
    let rings = doorbell.ring_before(due);
    let outputs = numbers![rings, doorbell.wakes_at().get()];
    lines.call("rings", numbers![wakes_at.get(), due.get()], outputs);
}

/// Whether there are too many dead entries, and a shard's share of them.
fn dead(lines: &mut Lines, draw: &mut Draw) {
    let dead = draw.any() >> 1;
    let living =
        if draw.one_in(2) { draw.any() } else { (2 * dead + 1) - draw.below(3).min(2 * dead) };
    lines.call("are_too_many", numbers![dead, living], numbers![are_too_many(dead, living)]);
    let (dead, shards) = (draw.any() >> 16, draw.within(1, MAX_SHARDS as u64));
    let near = dead / shards + draw.below(2);
    let here = if draw.one_in(2) { near } else { draw.any() >> 16 };
    let is_share = are_a_share(here, shards as usize, dead);
    lines.call("are_a_share", numbers![here, shards, dead], numbers![is_share]);
}
