//! `purgatory-..`: operations come at random, wait under three keys of a hundred, and are completed
//! by force or time out.
//!
//! An open load: when each operation comes is drawn beforehand (a Poisson process of the rate asked
//! for), and one that is taken in late, because the machine is behind, is not left out. How long
//! each then takes is log-normal. One that takes less than the timeout is put into a queue, a local
//! wheel with a tick of 1 ms that the same thread turns, and completed from there; the others are
//! left to time out.
//!
//! The thread does what a server's loop does: once in a millisecond it takes in what has come, then
//! completes what is done, then sleeps. Waiting for each arrival by itself would cost CPU that is
//! nobody's but the load's.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tickless::Tick;
use tickless::local::Wheel;

use super::Outcome;
use super::pace::{Pace, ROUND};
use crate::error::BenchError;
use crate::lateness::Lateness;
use crate::machine::usage::Usage;
use crate::machine::{clock, memory};
use crate::plan::Plan;
use crate::purgatories::request::{self, Request};
use crate::purgatories::{KEYS_EACH, Purgatory};
use crate::random::Random;
use crate::sink;

const TIMEOUT: Duration = Duration::from_millis(200);
const KEYS: u64 = 100;

/// How long operations take, as quantiles of a log-normal distribution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    median: Duration,
    upper_quartile: Duration,
}

/// Most are done in time.
pub(crate) const SHORT: Latency =
    Latency { median: Duration::from_millis(20), upper_quartile: Duration::from_millis(60) };

/// Half of them are not.
pub(crate) const LONG: Latency =
    Latency { median: Duration::from_millis(200), upper_quartile: Duration::from_millis(400) };

/// An operation to come.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrival {
    /// Since the beginning.
    at_ns: u64,
    /// No more than the timeout.
    takes_us: u32,
    keys: [u8; KEYS_EACH],
}

/// The thread that operations come to.
struct Load<'a, P: Purgatory> {
    purgatory: P,
    to_come: &'a [Arrival],
    deadlines_ns: Vec<u64>,
    done: Wheel<P::Ticket>,
    completed: u64,
    begun_ns: u64,
    last_came_ns: u64,
    in_rounds: Duration,
}

/// Measures a purgatory from the first operation that comes until the last one is over.
pub(crate) fn run<P: Purgatory>(plan: &Plan, latency: Latency) -> Result<Outcome, BenchError> {
    if plan.variant == 0 {
        return Err(plan.wrong("it needs a rate"));
    }
    let count = plan.count(plan.operations, 500);
    let arrivals = arrivals(count, plan.variant, latency, &mut Random::new(1));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    sink::stamp(count);
    let mut load = Load::new(P::start()?, &arrivals);
    let (resident, before) = (memory::resident_bytes(), Usage::of_process());
    load.run();
    let is_over = || load.completed + request::expired() >= count;
    sink::wait(plan.patience(), sink::SELDOM, is_over);
    let used = Usage::of_process() - before;
    let peak = memory::peak_bytes().saturating_sub(resident);

    let (completed, expired) = (load.completed, request::expired());
    plan.expect("operations that ended", completed + expired, count)?;
    plan.expect("operations that were told so", request::completed(), count)?;
    let behind_ns = load.last_came_ns.saturating_sub(arrivals.last().map_or(0, |last| last.at_ns));
    let mut outcome = Outcome::new(count, load.in_rounds, used.cpu_ns);
    outcome.add("per_s", count as f64 * 1e9 / load.last_came_ns as f64);
    outcome.add("behind_ms", behind_ns as f64 / 1e6);
    outcome.add("completed", completed);
    outcome.add("expired", expired);
    outcome.add("kept", load.purgatory.kept());
    outcome.add("peak_mb", peak as f64 / 1e6);
    outcome.add("cores", cores);
    if P::EXPIRES {
        let lateness = load.lateness();
        plan.expect("operations that have timed out", lateness.len() as u64, expired)?;
        plan.expect("operations that timed out early", lateness.early() as u64, 0)?;
        lateness.report(outcome.extra());
    }
    std::mem::forget(load);
    Ok(outcome)
}

/// Draws `count` operations that come at `rate` per second.
fn arrivals(count: u64, rate: u64, latency: Latency, random: &mut Random) -> Vec<Arrival> {
    let mut at_s = 0.0;
    let arrivals = (0..count).map(|_| {
        at_s += random.exponential() / rate as f64;
        let takes_s =
            random.log_normal(latency.median.as_secs_f64(), latency.upper_quartile.as_secs_f64());
        Arrival {
            at_ns: (at_s * 1e9) as u64,
            takes_us: (takes_s.min(TIMEOUT.as_secs_f64()) * 1e6) as u32,
            keys: keys(random),
        }
    });
    arrivals.collect()
}

/// Different keys.
fn keys(random: &mut Random) -> [u8; KEYS_EACH] {
    let mut keys = [0; KEYS_EACH];
    for i in 0..KEYS_EACH {
        keys[i] = random.below(KEYS) as u8;
        while keys[..i].contains(&keys[i]) {
            keys[i] = random.below(KEYS) as u8;
        }
    }
    keys
}

// === impl Load ===

impl<'a, P: Purgatory> Load<'a, P> {
    fn new(purgatory: P, arrivals: &'a [Arrival]) -> Load<'a, P> {
        // Touched here, so that its pages are not charged to the purgatory.
        let mut deadlines_ns = vec![1; arrivals.len()];
        deadlines_ns.clear();
        Load {
            purgatory,
            to_come: arrivals,
            deadlines_ns,
            done: Wheel::default(),
            completed: 0,
            begun_ns: clock::now_ns(),
            last_came_ns: 0,
            in_rounds: Duration::ZERO,
        }
    }

    /// Takes in all that comes, and completes all that is done in time.
    fn run(&mut self) {
        let mut pace = Pace::new();
        self.begun_ns = clock::now_ns();
        let mut round_ns = 0;
        while !self.to_come.is_empty() || !self.done.is_empty() {
            pace.wait();
            let begun_ns = clock::now_ns();
            self.take_in(round_ns);
            self.complete();
            self.in_rounds += Duration::from_nanos(clock::now_ns() - begun_ns);
            round_ns += clock::ns(ROUND);
        }
    }

    /// Takes in what was to come up to `until_ns`.
    fn take_in(&mut self, until_ns: u64) {
        let due = self.to_come.partition_point(|arrival| arrival.at_ns <= until_ns);
        if due == 0 {
            return;
        }
        let (now, later) = self.to_come.split_at(due);
        for &arrival in now {
            self.watch(arrival);
        }
        self.to_come = later;
        self.last_came_ns = clock::now_ns() - self.begun_ns;
    }

    fn watch(&mut self, arrival: Arrival) {
        let (now_ns, number) = (clock::now_ns(), self.deadlines_ns.len() as u64);
        self.deadlines_ns.push(now_ns + clock::ns(TIMEOUT));
        let request = Arc::new(Request::new(number));
        let ticket = self.purgatory.watch(request, arrival.keys.map(u32::from), TIMEOUT);
        let takes = Duration::from_micros(arrival.takes_us.into());
        if takes < TIMEOUT || !P::EXPIRES {
            let done_ns = now_ns - self.begun_ns + clock::ns(takes);
            self.done.insert(Tick::new(done_ns / clock::ns(ROUND) + 1), ticket);
        }
    }

    /// Completes what is done by now.
    fn complete(&mut self) {
        let now = Tick::new((clock::now_ns() - self.begun_ns) / clock::ns(ROUND));
        let Load { purgatory, done, completed, .. } = self;
        done.advance(now, |_, _, ticket| *completed += u64::from(purgatory.complete(ticket)));
    }

    /// How late the operations were that timed out.
    fn lateness(&self) -> Lateness {
        let mut lateness = Lateness::new(0);
        for (number, &deadline_ns) in self.deadlines_ns.iter().enumerate() {
            match sink::stamped_ns(number as u64) {
                0 => {}
                expired_ns => lateness.record(deadline_ns, expired_ns),
            }
        }
        lateness
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 100_000;

    fn drawn(rate: u64, latency: Latency) -> Vec<Arrival> {
        arrivals(COUNT, rate, latency, &mut Random::new(7))
    }

    /// Whether a share of all lies within half a per cent of what is expected.
    fn is_about(found: usize, expected: f64) -> bool {
        (found as f64 / COUNT as f64 - expected).abs() < 0.005
    }

    #[test]
    fn arrivals_come_at_the_rate_that_is_asked_for_and_in_order() {
        let arrivals = drawn(1_000, SHORT);
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at_ns));
        let mean_ms = arrivals.last().unwrap().at_ns as f64 / 1e6 / COUNT as f64;
        assert!((0.98..1.02).contains(&mean_ms), "{mean_ms}");
        let gaps = arrivals.windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns);
        assert!(is_about(gaps.filter(|&gap_ns| gap_ns > 1_000_000).count(), (-1.0_f64).exp()));
        assert_eq!(drawn(1_000, SHORT), arrivals);
    }

    #[test]
    fn latencies_have_their_quantiles_and_end_at_the_timeout() {
        let up_to = |latency, takes_ms: u32| {
            let arrivals = drawn(1_000, latency);
            arrivals.iter().filter(|arrival| arrival.takes_us <= takes_ms * 1_000).count()
        };
        assert!(is_about(up_to(SHORT, 20), 0.5) && is_about(up_to(SHORT, 60), 0.75));
        let too_long = drawn(1_000, LONG).iter().filter(|a| a.takes_us == 200_000).count();
        assert!(is_about(too_long, 0.5), "{too_long}");
        assert_eq!(up_to(LONG, 200) as u64, COUNT);
    }

    #[test]
    fn keys_differ_and_each_is_as_likely() {
        let mut counts = [0_u64; KEYS as usize];
        for arrival in drawn(1_000, LONG) {
            let [a, b, c] = arrival.keys;
            assert!(a != b && b != c && a != c);
            arrival.keys.iter().for_each(|&key| counts[key as usize] += 1);
        }
        let expected = COUNT * KEYS_EACH as u64 / KEYS;
        assert!(counts.iter().all(|count| count.abs_diff(expected) < expected / 4), "{counts:?}");
    }
}
