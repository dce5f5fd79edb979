//! Live figures: gauges that the loops move, and a line on the terminal that shows them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::plan::Plan;

/// Moved by the loops, read by anyone. Relaxed throughout: each number stands for itself.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    answered: AtomicU64,
    pending: AtomicU64,
    peak_pending: AtomicU64,
}

/// A progress bar on standard error; silent where that is not a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    plan: Plan,
    started: Instant,
    last_look: Instant,
    last_answered: u64,
}

// === impl Gauges ===

impl Gauges {
    /// A request was answered.
    pub(crate) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// A timer is about to be armed.
    pub(crate) fn armed(&self) {
        let pending = self.pending.fetch_add(1, Ordering::Relaxed) + 1;
        // The plain look first: the peak is seldom passed.
        if pending > self.peak_pending.load(Ordering::Relaxed) {
            self.peak_pending.fetch_max(pending, Ordering::Relaxed);
        }
    }

    /// A timer met its fate.
    pub(crate) fn settled(&self) {
        self.pending.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn peak_pending(&self) -> u64 {
        self.peak_pending.load(Ordering::Relaxed)
    }
}

// === impl Progress ===

impl Progress {
    pub(crate) fn new(plan: Plan) -> Progress {
        let now = Instant::now();
        let total = plan.end.saturating_duration_since(now);
        let style = ProgressStyle::with_template("{bar:30} {prefix} {msg}").expect("a template");
        let bar = ProgressBar::new(millis(total)).with_style(style);
        Progress { bar, plan, started: now, last_look: now, last_answered: 0 }
    }

    /// Draws the figures of the time since the last call.
    pub(crate) fn update(&mut self, gauges: &Gauges) {
        let now = Instant::now();
        let answered = gauges.answered.load(Ordering::Relaxed);
        let elapsed = now.duration_since(self.last_look).as_secs_f64();
        let rate = (answered - self.last_answered) as f64 / elapsed.max(f64::EPSILON);
        let pending = gauges.pending.load(Ordering::Relaxed);
        let phase = if now < self.plan.end { "running" } else { "draining" };
        self.bar.set_position(millis(now.duration_since(self.started)));
        self.bar.set_prefix(phase);
        self.bar.set_message(format!("{rate:.0} answers/s, {pending} timers pending"));
        (self.last_look, self.last_answered) = (now, answered);
    }

    /// Wipes the line.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
