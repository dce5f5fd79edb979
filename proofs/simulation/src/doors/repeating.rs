//! What repeats: periodics, heartbeats, retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickless::ScheduleReason;
use tickless::periodic::{
    Heartbeat, Outcome, Periodic, Retry, Retrying, Run, Schedule, StartReason,
};

use super::case::Deed;
use super::stage::{Stage, picked};
use super::world::{Token, What, World, lock};
use models::engine_model::case::At;

/// A periodic, and the number of its next run.
pub(crate) struct Repeated {
    number: usize,
    handle: Periodic,
}

/// A heartbeat, and when it is silent.
pub(crate) struct Beating {
    number: usize,
    heartbeat: Heartbeat,
    timeout_ns: u64,
}

pub(crate) struct Retried {
    number: usize,
    handle: Retrying,
}

/// How the runs of a periodic ought to follow each other.
struct Plan {
    kind: u8,
    period_ns: u64,
    due_ns: u64,
    runs: u64,
    most: u64,
}

// === impl Plan ===

impl Plan {
    /// A run begins.
    fn begin(&mut self, world: &World, number: usize, run: &Run) {
        world.fire(number);
        self.runs += 1;
        let is_next = run.number() == self.runs;
        world.expect(is_next, || format!("run {} is not {}", run.number(), self.runs));
        let due = world.instant(self.due_ns);
        let is_right = Some(run.deadline()) == due;
        world.expect(is_right, || format!("a run for {:?}, and not {due:?}", run.deadline()));
    }

    /// It ends, and the next one is due.
    fn end(&mut self, world: &World, number: usize) {
        if self.runs == self.most {
            return;
        }
        let ended_ns = world.now_ns();
        self.due_ns = match self.kind {
            0 => {
                let is_fine = self.period_ns < world.tick_ns;
                let next_ns = self.due_ns.saturating_add(self.period_ns);
                let behind_ns = ended_ns.saturating_sub(next_ns);
                let skipped = behind_ns.div_ceil(self.period_ns);
                let next_ns = next_ns.saturating_add(skipped.saturating_mul(self.period_ns));
                let is_shared = is_fine && next_ns == ended_ns;
                next_ns.saturating_add(if is_shared { self.period_ns } else { 0 })
            }
            1 => ended_ns.saturating_add(self.period_ns),
            _ => self.due_ns.saturating_add(self.period_ns),
        };
        world.file(number, self.due_ns);
    }
}

impl Stage {
    fn period_ns(&self, period: u16) -> u64 {
        (self.world.tick_ns.saturating_mul(period.into()) / 64).max(1)
    }

    fn expect_start(&self, reason: StartReason) {
        self.expect_reason(match reason {
            StartReason::Full => ScheduleReason::Full,
            StartReason::Stopped => ScheduleReason::Stopped,
            reason => panic!("not started: {reason}"),
        });
    }

    pub(super) fn every(
        self: &Arc<Stage>,
        first: Option<At>,
        period: u16,
        kind: u8,
        runs: u8,
        deed: Deed,
    ) {
        let (world, number) = (&self.world, self.world.add(What::Run));
        let (period_ns, now_ns) = (self.period_ns(period), world.now_ns());
        let period = Duration::from_nanos(period_ns);
        let schedule = match kind {
            0 => Schedule::fixed_rate(period),
            1 => Schedule::fixed_delay(period),
            _ => Schedule::fixed_rate(period).catching_up(),
        };
        let first = first.map(|at| world.after(at));
        let (schedule, due_ns) = match first {
            Some((at_ns, delay)) => (schedule.starting(delay), at_ns),
            None => (schedule, now_ns.saturating_add(period_ns)),
        };
        let mut plan = Plan { kind, period_ns, due_ns, runs: 0, most: runs.into() };
        let (stage, token) = (Arc::downgrade(self), world.token(number));
        let outcome = schedule.start(&self.engine, move |run| {
            let stage = stage.upgrade().expect("tasks run while there is a stage");
            plan.begin(&stage.world, token.number, run);
            if plan.runs == plan.most {
                run.cancel();
            } else if !matches!(deed, Deed::Panic) {
                stage.act(deed);
            }
            plan.end(&stage.world, token.number);
        });
        match outcome {
            Ok(handle) => {
                self.expect_accepted();
                world.file(number, due_ns);
                lock(&self.periodics).push(Repeated { number, handle });
            }
            Err(refused) => self.expect_start(refused.reason()),
        }
    }

    pub(super) fn every_cancel(&self, pick: u16) {
        let mut periodics = lock(&self.periodics);
        let Some(index) = picked(pick, periodics.len()) else { return };
        let Repeated { number, handle } = periodics.swap_remove(index);
        let is_over = handle.end().is_some();
        assert_eq!(handle.cancel(), !is_over, "periodic {number}");
        if !self.world.is_pending(number) {
            assert!(is_over, "periodic {number} goes on");
            return;
        }
        self.world.ended(number, !is_over);
    }

    pub(super) fn heartbeat(self: &Arc<Stage>, timeout: u16) {
        let (world, number) = (&self.world, self.world.add(What::Heartbeat));
        let (timeout_ns, token) = (self.period_ns(timeout), world.token(number));
        let on_silence = move || token.world().fire(token.number);
        match Heartbeat::new(&self.engine, Duration::from_nanos(timeout_ns), on_silence) {
            Ok(heartbeat) => {
                self.expect_accepted();
                world.file(number, world.now_ns().saturating_add(timeout_ns));
                lock(&self.beats).push(Beating { number, heartbeat, timeout_ns });
            }
            Err(refused) => self.expect_start(refused.reason()),
        }
    }

    pub(super) fn beat(&self, pick: u16) {
        let (world, beats) = (&self.world, lock(&self.beats));
        let Some(index) = picked(pick, beats.len()) else { return };
        let Beating { number, heartbeat, timeout_ns } = &beats[index];
        if heartbeat.beat() {
            let is_pending = world.is_pending(*number);
            world.expect(is_pending, || format!("heartbeat {number} beats after its end"));
            let is_late = world.is_asked_for(*number);
            world.expect(!is_late, || format!("a beat of {number} after the timeout is in time"));
            world.file(*number, world.now_ns().saturating_add(*timeout_ns));
        } else {
            world.ended(*number, false);
        }
    }

    pub(super) fn beat_stop(&self, pick: u16) {
        let mut beats = lock(&self.beats);
        let Some(index) = picked(pick, beats.len()) else { return };
        let Beating { number, heartbeat, .. } = beats.swap_remove(index);
        self.world.ended(number, heartbeat.stop());
    }

    pub(super) fn retry(self: &Arc<Stage>, pause: u16, fails: u8, attempts: u8) {
        let (world, number) = (&self.world, self.world.add(What::Attempt));
        let pause_ns = self.period_ns(pause);
        let pauses = std::iter::repeat_n(Duration::from_nanos(pause_ns), attempts.into());
        let made = Arc::new(AtomicU64::new(0));
        let (token, counted) = (world.token(number), made.clone());
        let attempt = move |attempt: u32| {
            let world = token.world();
            world.fire(token.number);
            let before = counted.fetch_add(1, Ordering::Relaxed);
            let is_next = u64::from(attempt) == before + 1;
            world.expect(is_next, || format!("attempt {attempt} after {before}"));
            if attempt > fails.into() {
                return Ok(attempt);
            }
            if attempt <= attempts.into() {
                world.file(token.number, world.now_ns().saturating_add(pause_ns));
            }
            Err(())
        };
        let (succeeds, token) = (fails <= attempts, world.token(number));
        let done = move |outcome: Outcome<u32, ()>| conclude(&token, &made, succeeds, &outcome);
        match Retry::new(pauses).run(&self.engine, attempt, done) {
            Ok(handle) => {
                self.expect_accepted();
                // At once means: by the next tick.
                let latest = world.ceil(world.now_ns());
                world.file_within(number, world.now() * world.tick_ns, latest);
                lock(&self.retries).push(Retried { number, handle });
            }
            Err(refused) => self.expect_start(refused.reason()),
        }
    }

    pub(super) fn retry_cancel(&self, pick: u16) {
        let mut retries = lock(&self.retries);
        let Some(index) = picked(pick, retries.len()) else { return };
        let Retried { number, handle } = retries.swap_remove(index);
        let (waits, is_over) = (self.world.is_pending(number), handle.end().is_some());
        // Where it ends is told before this returns.
        assert_eq!(handle.cancel(), !is_over, "retry {number}");
        assert!(waits || is_over, "retry {number} goes on");
    }
}

/// A retry is over.
fn conclude(token: &Token, made: &AtomicU64, succeeds: bool, outcome: &Outcome<u32, ()>) {
    let (world, made) = (token.world(), made.load(Ordering::Relaxed));
    let is_counted = u64::from(outcome.attempts()) == made;
    world.expect(is_counted, || format!("{made} attempts, and not {outcome:?}"));
    let is_right = match outcome {
        Outcome::Succeeded { .. } => succeeds,
        Outcome::GaveUp { .. } => !succeeds,
        _ => true,
    };
    world.expect(is_right, || format!("a retry ends with {outcome:?}"));
    world.forget(token.number);
}
