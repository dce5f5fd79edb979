//! `service`: what a server does with timers. Each request gets a timeout, and most are answered
//! long before it: their timers are cancelled, after steps that are log-normally spread. One
//! request in a hundred gets no answer, and its timer fires. Every fourth one moves the idle
//! timeout of its connection.
//!
//! Time within the load is counted in steps of 64 requests, not in seconds: every contender makes
//! the same calls in the same order, however fast it is. A server has an event loop whose rounds
//! are of one step or of up to 256, as much as came while it was not running: it takes all requests
//! that came, and then all answers. The variant says how many calls per second come, over all
//! threads; 0: as many as can be made.

use std::time::Duration;

use super::{Outcome, setup};
use crate::contender::nothing::Nothing;
use crate::contender::{Contender, Producer, on_threads};
use crate::drive::Lane;
use crate::error::BenchError;
use crate::lateness::Lateness;
use crate::machine::{clock, memory};
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

/// Steps that are measured: about 2,000,000 requests.
const STEPS: u64 = 32_000;
/// Requests that come in one step.
const REQUESTS: usize = 64;
/// A round has up to so many steps; as often between 64 and 128 as between 1 and 2.
const MOST_AT_ONCE: u64 = 256;
/// Steps until an answer: the median, the upper quartile, and more than which no request waits.
const MEDIAN: f64 = 300.0;
const UPPER_QUARTILE: f64 = 900.0;
const MOST_STEPS: u64 = 4_096;

const TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTIONS: u64 = 10_000;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// One request in so many is on a connection whose idle timeout is moved.
const MOVES: usize = 4;
/// One request in so many gets no answer within its timeout, which is short.
const EXPIRES: u64 = 100;
const EXPIRY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// Calls per step, to tell the steps that a rate makes.
const CALLS_PER_STEP: f64 = REQUESTS as f64 * (2.0 + 1.0 / MOVES as f64 - 1.0 / EXPIRES as f64);

/// One thread of the server.
struct Server<P: Producer> {
    producer: P,
    requests: Slots<P::Timer>,
    /// Places for requests that are not taken.
    free: Vec<u32>,
    /// The places of the requests that are answered in a step.
    answers: Vec<Vec<u32>>,
    connections: Slots<P::Timer>,
    expiring: Slots<P::Timer>,
    /// When each of those is due.
    due_ns: Vec<u64>,
    random: Random,
    /// Tokens of what does not fire; those of what does are given out from the lane's first on.
    next_token: u64,
    first_expiring: u64,
    /// Steps before those that are measured, and the most that a request waits.
    warm_up: u64,
    step: u64,
    end: u64,
    /// The length of a step, if there is a rate.
    pace: Option<Duration>,
    begun_ns: u64,
    calls: u64,
    late_answers: u64,
}

/// Measures a contender.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let threads = plan.threads as u64;
    let expiring = (steps(plan) + warm_up(plan) + MOST_AT_ONCE) * REQUESTS as u64 / EXPIRES + 1;
    sink::stamp(expiring * threads);
    let origin_ns = clock::now_ns();
    let before_bytes = memory::resident_bytes();
    let contender = C::start(setup(plan))?;
    let lanes =
        (0..threads).map(|lane| Server::new(contender.producer(), lane, expiring, plan)).collect();
    let (lanes, section): (Vec<Server<C::Producer>>, _) = contender.drive(lanes);
    let grown = memory::resident_bytes().saturating_sub(before_bytes);
    let mut lateness =
        Lateness::new(origin_ns).with_levels(plan.tick(), C::level_widths(setup(plan)));
    if C::FIRES {
        for lane in &lanes {
            let tokens = lane.first_expiring..lane.first_expiring + lane.due_ns.len() as u64;
            let missing = sink::wait_for_stamps(tokens.clone(), plan.patience());
            plan.expect("timers that did not fire", missing, 0)?;
            for (token, &due_ns) in tokens.zip(&lane.due_ns) {
                lateness.record(due_ns, sink::stamped_ns(token));
            }
        }
    }
    let late_answers: u64 = lanes.iter().map(|lane| lane.late_answers).sum();
    plan.expect("answers to requests that had timed out", late_answers, 0)?;
    let calls: u64 = lanes.iter().map(|lane| lane.calls).sum();

    let mut outcome = Outcome::new(calls, section.wall, section.used.cpu_ns);
    let load_ns = load_alone_ns(plan);
    outcome.add("fired", lateness.len());
    outcome.add("expired", lanes.iter().map(|lane| lane.due_ns.len() as u64).sum::<u64>());
    outcome.add("per_s", calls as f64 / section.wall.as_secs_f64());
    outcome.add("load_cpu_ns_per_op", load_ns);
    outcome.add("timers_cpu_ns_per_op", section.used.cpu_ns as f64 / calls as f64 - load_ns);
    outcome.add("switches", section.used.switches);
    outcome.add("resident_mb", grown as f64 / 1e6);
    lateness.report(outcome.extra());
    contender.report(outcome.extra());
    std::mem::forget((contender, lanes));
    Ok(outcome)
}

fn steps(plan: &Plan) -> u64 {
    plan.count(STEPS, 20)
}

/// Steps after which as many requests are answered as come.
fn warm_up(plan: &Plan) -> u64 {
    plan.count(MOST_STEPS, 4)
}

/// CPU time per call of the same load, at the same rate, on timers that do nothing.
fn load_alone_ns(plan: &Plan) -> f64 {
    let threads = plan.threads as u64;
    let lanes = (0..threads).map(|lane| Server::new(Nothing, lane, 0, plan)).collect();
    let (lanes, section): (Vec<Server<Nothing>>, _) = on_threads(&Nothing, lanes);
    section.used.cpu_ns as f64 / lanes.iter().map(|lane| lane.calls).sum::<u64>() as f64
}

// === impl Server ===

impl<P: Producer> Server<P> {
    fn new(producer: P, lane: u64, expiring: u64, plan: &Plan) -> Server<P> {
        let warm_up = warm_up(plan);
        let places = (warm_up + 2 * MOST_AT_ONCE) as usize * REQUESTS;
        let (threads, per_s) = (plan.threads as f64, plan.variant as f64);
        let step_s = CALLS_PER_STEP * threads / per_s;
        Server {
            producer,
            requests: Slots::new(places),
            free: (0..places as u32).rev().collect(),
            answers: (0..=warm_up + MOST_AT_ONCE).map(|_| Vec::with_capacity(REQUESTS)).collect(),
            connections: Slots::new(plan.count(CONNECTIONS, 16) as usize),
            expiring: Slots::new(expiring as usize),
            due_ns: Vec::with_capacity(expiring as usize),
            random: Random::new(lane + 1),
            next_token: (lane + 1) << 40,
            first_expiring: lane * expiring,
            warm_up,
            step: 0,
            end: warm_up + steps(plan),
            pace: (plan.variant > 0).then(|| Duration::from_secs_f64(step_s)),
            begun_ns: 0,
            calls: 0,
            late_answers: 0,
        }
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn round(&mut self) {
        let most = MOST_AT_ONCE.min(self.warm_up);
        let steps = (self.random.unit() * (most as f64).ln()).exp() as u64;
        let steps = steps.clamp(1, most);
        for step in self.step..self.step + steps {
            for request in 0..REQUESTS {
                if self.random.below(EXPIRES) == 0 {
                    self.expire();
                } else {
                    self.ask(step);
                }
                if request % MOVES == 0 {
                    self.hear();
                }
            }
        }
        for step in self.step..self.step + steps {
            let at = (step % self.answers.len() as u64) as usize;
            let mut answered = std::mem::take(&mut self.answers[at]);
            self.calls += answered.len() as u64;
            for place in answered.drain(..) {
                let is_in_time = self.producer.cancel(self.requests.at(place as usize));
                self.late_answers += u64::from(!is_in_time);
                self.free.push(place);
            }
            self.answers[at] = answered;
        }
        self.step += steps;
    }

    /// A request that will be answered.
    fn ask(&mut self, step: u64) {
        let wait = self.random.log_normal(MEDIAN, UPPER_QUARTILE) as u64;
        let wait = wait.clamp(1, self.warm_up);
        let at = ((step + wait) % self.answers.len() as u64) as usize;
        let place = self.free.pop().expect("no request waits longer than there are places");
        self.answers[at].push(place);
        let token = self.token();
        self.producer.schedule(self.requests.at(place as usize), TIMEOUT, token);
        self.calls += 1;
    }

    /// A request that will not.
    fn expire(&mut self) {
        let nth = self.due_ns.len();
        if nth == self.expiring.len() {
            return;
        }
        let delay = self.random.between(EXPIRY.0, EXPIRY.1);
        // Before the contender reads its own clock, as in `fire-all`.
        self.due_ns.push(clock::now_ns() + clock::ns(delay));
        let token = self.first_expiring + nth as u64;
        self.producer.schedule(self.expiring.at(nth), delay, token);
        self.calls += 1;
    }

    /// A connection is heard of.
    fn hear(&mut self) {
        let at = self.random.below(self.connections.len() as u64) as usize;
        let token = self.token();
        let is_in_time = self.producer.reset(self.connections.at(at), IDLE_TIMEOUT, token);
        self.late_answers += u64::from(!is_in_time);
        self.calls += 1;
    }
}

impl<P: Producer> Lane for Server<P> {
    fn prepare(&mut self) {
        for at in 0..self.connections.len() {
            let token = self.token();
            self.producer.schedule(self.connections.at(at), IDLE_TIMEOUT, token);
        }
        while self.step < self.warm_up {
            self.round();
        }
        self.calls = 0;
    }

    fn burst(&mut self) -> bool {
        if self.begun_ns == 0 {
            self.begun_ns = clock::now_ns();
        }
        self.round();
        self.step < self.end
    }

    fn pause(&self) -> Duration {
        let Some(pace) = self.pace else { return Duration::ZERO };
        let next =
            Duration::from_nanos(self.begun_ns) + pace.mul_f64((self.step - self.warm_up) as f64);
        next.saturating_sub(Duration::from_nanos(clock::now_ns()))
    }
}
