//! `wakeups`: a million timeouts of 50 ms per second, each cancelled after a millisecond. How
//! often does somebody wake up for what never fires?

use std::time::{Duration, Instant};

use super::pace::{Pace, rounds};
use super::{Outcome, setup};
use crate::contender::{Contender, Producer};
use crate::error::BenchError;
use crate::machine::switches::Others;
use crate::machine::usage::Usage;
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

const PER_ROUND: usize = 1_000;
const TIMEOUT: Duration = Duration::from_millis(50);
const WATCH: Duration = Duration::from_secs(5);

/// Before the measurement: until the first timeouts would have been due.
const WARM_UP: Duration = Duration::from_millis(200);

/// Schedules a round's timers after cancelling those of the round before.
struct Requests<P: Producer> {
    producer: P,
    slots: Slots<P::Timer>,
    random: Random,
    jitter: Duration,
    token: u64,
    cancelled: u64,
    in_calls: Duration,
}

/// Measures a contender with the jitter of the plan's variant.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let contender = C::start(setup(plan))?;
    let mut requests = Requests {
        producer: contender.producer(),
        slots: Slots::new(PER_ROUND),
        random: Random::new(1),
        jitter: Duration::from_micros(plan.variant),
        token: 0,
        cancelled: 0,
        in_calls: Duration::ZERO,
    };
    let mut pace = Pace::new();
    let measured = contender.inside(|| {
        requests.run(rounds(plan.time(WARM_UP, Duration::from_millis(10))), &mut pace);
        requests.in_calls = Duration::ZERO;
        let (token, begun, others) = (requests.token, Instant::now(), Others::than_this());
        let before = (Usage::of_process(), Usage::of_thread(), others.switches());
        requests.run(rounds(plan.time(WATCH, Duration::from_millis(20))), &mut pace);
        let by_this = Usage::of_thread() - before.1;
        let wake_ups = others.switches().saturating_sub(before.2);
        let used = Usage::of_process() - before.0;
        (requests.token - token, begun.elapsed(), used, by_this, wake_ups)
    });
    let (timers, elapsed, used, by_this, wake_ups) = measured;
    // The last round is still pending; if a round came very late, some fired instead.
    let pending = PER_ROUND as u64;
    if requests.cancelled + sink::fired() + pending < requests.token {
        return Err(plan.wrong("timers were neither cancelled nor fired"));
    }

    let mut outcome = Outcome::new(timers, requests.in_calls, used.cpu_ns);
    let (others, seconds) = (used.cpu_ns.saturating_sub(by_this.cpu_ns), elapsed.as_secs_f64());
    outcome.add("scheduled", requests.token);
    outcome.add("cancelled", requests.cancelled);
    outcome.add("fired", sink::fired());
    outcome.add("jitter_us", plan.variant);
    outcome.add("per_s", timers as f64 / seconds);
    outcome.add("wake_ups_per_s", wake_ups as f64 / seconds);
    outcome.add("others_cpu_ms_per_s", others as f64 / 1e6 / seconds);
    contender.report(outcome.extra());
    std::mem::forget((contender, requests));
    Ok(outcome)
}

// === impl Requests ===

impl<P: Producer> Requests<P> {
    fn run(&mut self, rounds: u64, pace: &mut Pace) {
        for _ in 0..rounds {
            pace.wait();
            let begun = Instant::now();
            for at in 0..PER_ROUND {
                self.request(at);
            }
            self.in_calls += begun.elapsed();
        }
    }

    #[inline]
    fn request(&mut self, at: usize) {
        if self.token >= PER_ROUND as u64 {
            self.cancelled += u64::from(self.producer.cancel(self.slots.at(at)));
        }
        let delay = self.random.between(TIMEOUT, TIMEOUT + self.jitter);
        self.producer.schedule(self.slots.at(at), delay, self.token);
        self.token += 1;
    }
}
