//! The live view: a line of figures each second, and the samples that the report's plots show.

use std::io::{self, Write};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::gauges::{Gauges, Reading};
use crate::plan::Plan;
use crate::usage::Usage;
use crate::wakeups::WakeUps;
use crate::words::{grouped, ms};

/// From one line to the next.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// The figures of one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Since the load began.
    pub(crate) at: Duration,
    pub(crate) pending: u64,
    pub(crate) usage: Option<Usage>,
}

/// Follows one run.
pub(crate) struct Live<'a> {
    plan: &'a Plan,
    gauges: &'a Gauges,
    quiet: bool,
    samples: Vec<Sample>,
    wake_ups: WakeUps,
    last_line: Instant,
    last_reading: Reading,
    last_usage: Option<Usage>,
}

// === impl Live ===

impl<'a> Live<'a> {
    /// A `quiet` one prints nothing.
    pub(crate) fn new(plan: &'a Plan, gauges: &'a Gauges, quiet: bool) -> Live<'a> {
        let mut live = Live {
            plan,
            gauges,
            quiet,
            samples: Vec::new(),
            wake_ups: WakeUps::default(),
            last_line: plan.started,
            last_reading: gauges.read(),
            last_usage: Usage::now(),
        };
        live.wake_ups.update();
        live.sample(plan.started);
        live
    }

    /// To be called every now and then.
    pub(crate) fn look(&mut self) {
        let now = Instant::now();
        self.sample(now);
        if now.duration_since(self.last_line) < LINE_EVERY {
            return;
        }
        self.wake_ups.update();
        let (reading, usage) = (self.gauges.read(), Usage::now());
        let seconds = now.duration_since(self.last_line).as_secs_f64();
        if !self.quiet {
            say(&self.line(now, &reading, usage, seconds));
        }
        (self.last_line, self.last_reading, self.last_usage) = (now, reading, usage);
    }

    /// The samples, and how often the engine's threads woke up since they began.
    pub(crate) fn finish(mut self) -> (Vec<Sample>, Option<u64>) {
        self.sample(Instant::now());
        self.wake_ups.update();
        (self.samples, self.wake_ups.sum())
    }

    fn sample(&mut self, now: Instant) {
        let at = now.duration_since(self.plan.started);
        let pending = self.gauges.read().pending;
        self.samples.push(Sample { at, pending, usage: Usage::now() });
    }

    fn line(&self, now: Instant, reading: &Reading, usage: Option<Usage>, seconds: f64) -> String {
        let at = now.duration_since(self.plan.started).as_secs_f64();
        let per_s = (reading.answered - self.last_reading.answered) as f64 / seconds;
        let load = if now < self.plan.end() {
            format!("{:>6} requests/s", grouped(per_s as u64))
        } else {
            "coming to rest   ".to_owned()
        };
        let late = self.gauges.late_p99().map_or("none fired".to_owned(), |p99| {
            format!("p99 {}, max {}", ms(p99), ms(self.gauges.late_max()))
        });
        let cpu = usage.zip(self.last_usage).map_or("unknown".to_owned(), |(usage, before)| {
            let share = usage.since(before).cpu.as_secs_f64() / seconds;
            let cores = available_parallelism().map_or(1, usize::from);
            format!("{share:.2} of {cores} cores")
        });
        format!(
            "{at:>4.0} s  {load} | timers: {} pending, {} cancelled, {} reset, {} fired | \
             late: {late} | CPU: {cpu}",
            grouped(reading.pending),
            grouped(reading.cancelled),
            grouped(reading.reset),
            grouped(reading.fired),
        )
    }
}

/// Prints a line at once. Whoever closed the pipe misses nothing that they wanted.
pub(crate) fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
