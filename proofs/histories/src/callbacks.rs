//! What runs when a timer of `handles` fires: it records that, and gets in the way of others.

use std::panic;
use std::time::{Duration, Instant};

use crate::faults::{Fault, is_unlucky};
use crate::handles::Token;
use crate::history::{CALLBACK, Recorder};
use crate::random::Random;
use crate::timeline::Stamp;
use crate::timer::Call;

/// Runs a payload, which the handler began to take out of its batch at `before`, as the task of a
/// timer.
///
/// # Panics
/// The scenario says so.
pub fn run(token: Token, before: Stamp) {
    let after = token.world.timeline.after();
    let Token { id, ref world } = token;
    let recorder = &mut Recorder::new(&world.timeline, CALLBACK);
    // A turn that takes a shard over hands over what another one has collected. Where the begin is
    // not known, the recorder works it out from the deadlines.
    let turn = world.timeline.turn_began().filter(|_| world.scenario.takeover.is_none());
    let collected = Stamp { at: turn.unwrap_or(0), clock_ns: 0 };
    recorder.push(id, collected, after, Call::Collect);
    recorder.push(id, before, after, Call::Fire);
    if world.fault == Some(Fault::FireTwice) && is_unlucky(id) {
        let now = world.timeline.after();
        recorder.push(id, before, now, Call::Fire);
    }
    let scenario = &world.scenario;
    let random = &mut Random::of_thread(scenario.seed, 1_000 + u64::from(id));
    let mut is_one_of = |times: u64| times > 0 && random.once_in(times);
    let (mischief, slow) = (is_one_of(scenario.mischief), is_one_of(scenario.slow));
    let panics = is_one_of(scenario.panics);
    if mischief {
        (0..=random.below(2)).for_each(|_| world.act(recorder, random, false));
    }
    world.log.lock().expect("a log").append(&mut recorder.operations);
    world.note_end(id);
    if slow {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(100 + random.below(200)) {
            std::hint::spin_loop();
        }
    }
    if panics {
        // Without the hook, which would print it.
        panic::resume_unwind(Box::new("a task that panics"));
    }
}
