//! What runs when a timer of `handles` fires: it records that, and gets in the way of others.

use std::panic;
use std::time::{Duration, Instant};

use crate::faults::{Fault, is_unlucky};
use crate::handles::Token;
use crate::history::{CALLBACK, Recorder};
use crate::random::Random;
use crate::timeline::Stamp;
use crate::timer::Call;

/// Runs a payload, as the task of a timer.
///
/// # Panics
/// The scenario says so.
pub fn run(token: Token) {
    let after = token.world.timeline.after();
    let Token { id, ref world } = token;
    let recorder = &mut Recorder::new(&world.timeline, CALLBACK);
    // Without a turn, the recorder works out the begin from the deadlines.
    let began = world.timeline.turn_began().unwrap_or(0);
    let before = Stamp { at: began, clock_ns: 0 };
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
