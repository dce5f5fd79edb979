//! `steady`: half a million timers pending; each that fires is replaced by another.

use std::time::{Duration, Instant};

use super::pace::{Pace, rounds};
use super::{Outcome, setup};
use crate::contender::{Contender, Producer};
use crate::error::BenchError;
use crate::machine::memory;
use crate::machine::usage::Usage;
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

/// 500,000 per second.
const PER_ROUND: u64 = 500;
const LEAST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_millis(1_500);
const WATCH: Duration = Duration::from_secs(6);

/// No timer is later than this, or its place is used for another one and it is missed.
const MOST_LATE: Duration = Duration::from_secs(1);

/// What the hungriest contender takes for a timer, and some more.
const TOUCHED_BYTES: u64 = 512;

/// Schedules at a steady rate.
struct Feed<P: Producer> {
    producer: P,
    slots: Slots<P::Timer>,
    random: Random,
    delays: (Duration, Duration),
    token: u64,
    in_calls: Duration,
}

/// Measures a contender once as many timers fire as come.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let (least, most) = (plan.time(LEAST, Duration::ZERO), plan.time(MOST, Duration::ZERO));
    let least = least.max(Duration::from_millis(5));
    let most = most.max(Duration::from_millis(15));
    let watch = plan.time(WATCH, Duration::from_millis(40));
    let timers = PER_ROUND * (rounds(most) + rounds(watch));
    let slots = timers.min(PER_ROUND * rounds(most + MOST_LATE));
    memory::touch(slots * TOUCHED_BYTES);
    let contender = C::start(setup(plan))?;
    let mut feed = Feed {
        producer: contender.producer(),
        slots: Slots::new(slots as usize),
        random: Random::new(1),
        delays: (least, most),
        token: 0,
        in_calls: Duration::ZERO,
    };
    let mut pace = Pace::new();
    let measured = contender.inside(|| {
        feed.run(rounds(most), &mut pace);
        feed.in_calls = Duration::ZERO;
        let (token, begun) = (feed.token, Instant::now());
        let before = (Usage::of_process(), Usage::of_thread());
        feed.run(rounds(watch), &mut pace);
        let by_this = Usage::of_thread() - before.1;
        (feed.token - token, begun.elapsed(), Usage::of_process() - before.0, by_this)
    });
    let (timers, elapsed, used, by_this) = measured;
    sink::wait_for_fired(feed.token, plan.patience().min(Duration::from_secs(10)));
    let fired = sink::fired_of(feed.token);
    let expected = if C::LOSES { feed.token.min(fired) } else { feed.token };
    plan.expect("timers fired", fired, expected)?;

    let mut outcome = Outcome::new(timers, feed.in_calls, used.cpu_ns);
    let others = used.cpu_ns.saturating_sub(by_this.cpu_ns);
    outcome.add("scheduled", feed.token);
    outcome.add("fired", fired);
    outcome.add("lost", feed.token - fired);
    outcome.add("per_s", timers as f64 / elapsed.as_secs_f64());
    outcome.add("others_cpu_ns_per_op", others as f64 / timers as f64);
    outcome.add("tick_us", if C::HAS_TICK { plan.tick_us } else { 0 });
    contender.report(outcome.extra());
    std::mem::forget((contender, feed));
    Ok(outcome)
}

// === impl Feed ===

impl<P: Producer> Feed<P> {
    fn run(&mut self, rounds: u64, pace: &mut Pace) {
        for _ in 0..rounds {
            pace.wait();
            let begun = Instant::now();
            for _ in 0..PER_ROUND {
                self.schedule();
            }
            self.in_calls += begun.elapsed();
        }
    }

    #[inline]
    fn schedule(&mut self) {
        let slot = self.slots.at((self.token % self.slots.len() as u64) as usize);
        let delay = self.random.between(self.delays.0, self.delays.1);
        self.producer.schedule_for_good(slot, delay, self.token);
        self.token += 1;
    }
}
