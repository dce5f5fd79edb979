//! Bodies under the random scheduler.
//!
//! Each body runs under three kinds of schedules: any thread at any step (random); a few changes
//! of who goes first (PCT: bugs that need few changes show soon, however long the run); and, if
//! it has a call that is suspendable, random schedules in which that call stops at its first
//! step, its second, and so on to its last.

use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use super::stopwatch::Stopwatch;
use super::suspension::{self, Steered};

/// Schedules of each kind, unless the environment's `TICKLESS_SCHEDULES` says otherwise.
const SCHEDULES: usize = 1_000;

/// What the schedules are drawn from, unless the environment's `TICKLESS_SEED` says otherwise.
const SEED: u64 = 1;

/// Changes of priority in a PCT schedule.
const DEPTH: usize = 4;

/// Steps of a schedule before it is taken for an endless loop.
const MAX_STEPS: usize = 100_000;

/// Says at a failure which schedules it was in.
struct Saying(String);

pub(super) fn run(_bound: usize, body: impl Fn() + Send + Sync + 'static) {
    let body: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        body();
        suspension::settle();
    });
    let schedules = from_env("TICKLESS_SCHEDULES", SCHEDULES as u64) as usize;
    let seed = from_env("TICKLESS_SEED", SEED);
    let begin = Stopwatch::start();
    suspension::forget();
    let random = RandomScheduler::new_from_seed(seed, schedules);
    let mut count = explore("random", random, None, &body);
    let pct = PctScheduler::new_from_seed(seed, DEPTH, schedules);
    count += explore("PCT", pct, None, &body);
    let mut stop_at = 0;
    // A call may turn out to be longer than it was seen to be before.
    while stop_at < suspension::longest() {
        let share = (schedules / suspension::longest()).max(20);
        let random = RandomScheduler::new_from_seed(seed, share);
        count += explore("suspended", random, Some(stop_at), &body);
        stop_at += 1;
    }
    let (threads, time) = (suspension::threads(), begin.elapsed());
    eprintln!("{threads} threads, {count} schedules, {stop_at} steps suspended at, {time:.2?}");
}

/// Runs `body` in all schedules of one kind; answers how many.
fn explore(
    kind: &str,
    scheduler: impl Scheduler + 'static,
    stop_at: Option<usize>,
    body: &Arc<dyn Fn() + Send + Sync>,
) -> usize {
    let _saying = Saying(match stop_at {
        None => format!("{kind} schedules"),
        Some(step) => format!("random schedules, suspended at step {step}"),
    });
    let mut config = Config::new();
    // What it would warn of is what the model checker is for.
    config.silence_warnings = true;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    let body = body.clone();
    Runner::new(Steered::new(scheduler, stop_at), config).run(move || body())
}

impl Drop for Saying {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it failed in {}", self.0);
        }
    }
}

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}
