//! `fire-all`: as many timers as fast as possible, and all of them fire, over two seconds; and
//! `clustered`, where they all come at once: with one timeout for all, armed in one burst, or with
//! one deadline.
//!
//! With one timeout, the faster a contender arms, the closer its deadlines lie. With one deadline
//! the load is the same for all: how late the last timer is, is how long it takes to fire them.
//!
//! What a schedule costs here includes one clock read and two stores of the bench's own, which
//! say when the timer ought to fire; what a firing costs includes another.

use std::time::Duration;

use super::{Outcome, setup};
use crate::contender::{Contender, Producer};
use crate::drive::{BURST, Lane};
use crate::error::BenchError;
use crate::kind::ONE_TIMEOUT;
use crate::lateness::Lateness;
use crate::machine::usage::Usage;
use crate::machine::{clock, memory};
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

/// The timers of a workload, and when they are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    timers: u64,
    due: Due,
}

/// When timers are due.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// Uniform between these delays.
    Spread(Duration, Duration),
    /// All after the same delay.
    After(Duration),
    /// All at this time after the first of a thread is scheduled.
    At(Duration),
}

/// What `fire-all` schedules.
pub(crate) const SPREAD: Load = Load {
    timers: 1_000_000,
    due: Due::Spread(Duration::from_millis(1), Duration::from_millis(2_000)),
};

const CLUSTERED: Duration = Duration::from_millis(2_000);

/// What `clustered` schedules.
pub(crate) fn clustered(variant: u64) -> Load {
    let due = match variant {
        ONE_TIMEOUT => Due::After(CLUSTERED),
        _ => Due::At(CLUSTERED),
    };
    Load { timers: 500_000, due }
}

/// What the hungriest contender takes for a timer, and some more.
const TOUCHED_BYTES: u64 = 512;

/// One thread's share.
struct Salvo<P: Producer> {
    producer: P,
    timers: Slots<P::Timer>,
    deadlines_ns: Vec<u64>,
    first_token: u64,
    next: usize,
    random: Random,
    due: Due,
    /// When the first was scheduled.
    begun_ns: u64,
}

/// Measures a contender.
pub(crate) fn run<C: Contender>(plan: &Plan, load: Load) -> Result<Outcome, BenchError> {
    let per_thread = plan.count(load.timers, 200).div_ceil(plan.threads as u64);
    let timers = per_thread * plan.threads as u64;
    let due = load.due.scaled(plan);
    memory::touch(timers * TOUCHED_BYTES);
    sink::stamp(timers);
    // Starting, they read their clock first and then start threads.
    let origin_ns = clock::now_ns();
    let contender = C::start(setup(plan))?;
    let lanes = (0..plan.threads as u64)
        .map(|lane| Salvo::new(contender.producer(), lane, per_thread, due))
        .collect();
    let (lanes, section) = contender.drive(lanes);
    let missing = sink::wait_for_stamps(0..timers, plan.patience());
    let used = Usage::of_process() - section.usage_before;
    plan.expect("timers that did not fire", missing, 0)?;

    let mut lateness =
        Lateness::new(origin_ns).with_levels(plan.tick(), C::level_widths(setup(plan)));
    for lane in &lanes {
        for (token, &deadline_ns) in (lane.first_token..).zip(&lane.deadlines_ns) {
            lateness.record(deadline_ns, sink::stamped_ns(token));
        }
    }
    let mut outcome = Outcome::new(timers, section.wall, used.cpu_ns);
    outcome.add("scheduled", timers);
    outcome.add("fired", timers - missing);
    outcome.add("clock_ns", clock::cost_ns());
    outcome.add("tick_us", if C::HAS_TICK { plan.tick_us } else { 0 });
    outcome.add("switches", used.switches);
    lateness.report(outcome.extra());
    contender.report(outcome.extra());
    std::mem::forget((contender, lanes));
    Ok(outcome)
}

// === impl Due ===

impl Due {
    fn scaled(self, plan: &Plan) -> Due {
        let scaled = |time| plan.time(time, Duration::from_millis(20));
        match self {
            Due::Spread(least, most) => Due::Spread(least, scaled(most)),
            Due::After(delay) => Due::After(scaled(delay)),
            Due::At(time) => Due::At(scaled(time)),
        }
    }
}

// === impl Salvo ===

impl<P: Producer> Salvo<P> {
    fn new(producer: P, lane: u64, timers: u64, due: Due) -> Salvo<P> {
        Salvo {
            producer,
            timers: Slots::new(timers as usize),
            deadlines_ns: vec![1; timers as usize],
            first_token: lane * timers,
            next: 0,
            random: Random::new(lane + 1),
            due,
            begun_ns: 0,
        }
    }

    #[inline]
    fn step(&mut self) {
        let (at, token) = (self.next, self.first_token + self.next as u64);
        let delay = match self.due {
            Due::Spread(least, most) => self.random.between(least, most),
            Due::After(delay) => delay,
            Due::At(time) => {
                let end_ns = self.begun_ns + clock::ns(time);
                Duration::from_nanos(end_ns.saturating_sub(clock::now_ns()))
            }
        };
        // Before the contender reads its own clock: a timer that is not early by this deadline
        // may be by its own, but not the other way round.
        self.deadlines_ns[at] = clock::now_ns() + clock::ns(delay);
        self.producer.schedule_for_good(self.timers.at(at), delay, token);
        self.next += 1;
    }
}

impl<P: Producer> Lane for Salvo<P> {
    fn prepare(&mut self) {}

    fn burst(&mut self) -> bool {
        if self.begun_ns == 0 {
            self.begun_ns = clock::now_ns();
        }
        let end = self.timers.len().min(self.next + BURST as usize);
        while self.next < end {
            self.step();
        }
        self.next < self.timers.len()
    }
}
