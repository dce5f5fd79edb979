//! The measuring bench: tickless beside other timers.
//!
//! A request is expanded into measurements (`schedule`), each made by a process of its own
//! (`child`) that runs one workload with one contender and prints one record. Contenders stand
//! behind the traits of `contender`, `wheels` and `purgatories`, and are listed in `registry`;
//! workloads are written once, for any of them, in `workload`. What PERF.md and
//! RESULTS.md show is measured, kept and drawn by `perf`.
//!
//! What to know of the figures:
//!
//! - Futures are built in places that are pinned beforehand, polled once with a waker that
//!   allocates nothing and runs the timer's task, and dropped to cancel them.
//! - `ns_per_op` is wall time of the threads that schedule; `cpu_ns_per_op` is user and system time
//!   of the whole process, up to the moment when what they handed over was dealt with.
//! - The allocator is mimalloc. It keeps what it was given (`MIMALLOC_PURGE_DELAY=-1`), and where
//!   growth is not what is measured (`fire-all`, `steady`, `stall`, `wheel`) its memory is touched
//!   before.
//! - With two threads or more, the time of a hand-off between two threads is taken before and
//!   after; a run during which it changed by more than half is marked unsteady.
//! - `purgatory-..` is an open load of one thread, which sleeps between two milliseconds: to spin
//!   would be counted as CPU time. What it costs itself is `purgatory-floor`, to be subtracted.
//!   Peak memory is the most that was in memory beyond what was before the first operation; it
//!   comes in huge pages where the system has them, and its first touch is part of the CPU time:
//!   more `--operations` make that less. The caller decides on how many cores it runs
//!   (`taskset -c 0` for one).
//! - `paced` sleeps from round to round as the contender's users would: a thread with the system's
//!   sleep, a task with tokio's, a worker of `heap-timerfd` on its timerfd.
//! - tokio is built with `--cfg tokio_unstable` (`benches/measure.sh`), for its alternative timer.
//! - tokio is built with `test-util`, for the wheel whose clock stands still: reading its clock
//!   costs one load more than without.

mod args;
mod book;
mod child;
mod contender;
mod drive;
mod error;
mod heap;
mod host;
mod kind;
mod lateness;
mod list;
mod machine;
mod perf;
mod plan;
mod plot;
mod purgatories;
mod random;
mod record;
mod registry;
mod sample;
mod schedule;
mod sink;
mod slots;
mod table;
mod waker;
mod wheels;
mod workload;

use std::path::Path;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Request, Task};
use crate::error::BenchError;
use crate::plan::Plan;
use crate::record::Record;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let task = Task::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match perform(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rivals: {error}");
            ExitCode::from(error.status())
        }
    }
}

fn perform(task: Task) -> Result<(), BenchError> {
    match task {
        Task::List => print!("{}", list::list()),
        Task::Perf(extent, places) => perf::measure(&extent, &places)?,
        Task::Redraw(places) => perf::redraw(&places)?,
        Task::Check(places) => perf::check(&places)?,
        Task::Measure(request, json) => return measure(&request, json.as_deref()),
        Task::MeasureOne(plan) => measure_one(&plan)?,
    }
    Ok(())
}

/// Measures once and ends the process, with no thread of a contender asked to stop.
fn measure_one(plan: &str) -> Result<(), BenchError> {
    let plan: Plan = serde_json::from_str(plan)
        .map_err(|error| BenchError::Usage(format!("--{}: {error}", child::OPTION)))?;
    let record = child::measure(&plan)?;
    println!("{}", serde_json::to_string(&record).expect("a record is plain data"));
    std::process::exit(0)
}

/// Measures all that was asked for. A failure is told at once and does not end the rest.
fn measure(request: &Request, json: Option<&Path>) -> Result<(), BenchError> {
    let plans = schedule::plans(request)?;
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("a template");
    let bar = ProgressBar::new(plans.len() as u64).with_style(style);
    let mut records: Vec<Record> = Vec::new();
    let mut failures = 0;
    for plan in &plans {
        bar.set_message(plan.label());
        match child::measure_elsewhere(plan) {
            Ok(record) => {
                if let Some(path) = json {
                    record.append_to(path)?;
                }
                records.push(record);
            }
            Err(error) => {
                bar.suspend(|| eprintln!("rivals: {error}"));
                failures += 1;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    print!("{}", table::tables(&records));
    if failures == 0 { Ok(()) } else { Err(BenchError::Failures(failures)) }
}
