//! What timers cost in the tasks of a runtime, by its workers.
//!
//! The tasks are the same whatever timers they have: tokio's, its alternative ones, those of
//! tickless on threads of the engine or served by a task of the runtime, and none. What a timer
//! costs itself is what it costs beyond *none*. Each measurement has a process of its own; all
//! timers of one number of workers take turns.
//!
//! ```text
//! benches/measure.sh --list           # builds it, with all of them
//! target/release/async-scale --workers 1,2,4,8,16
//! ```
//!
//! `--record` measures once and prints a record for `rivals`, which is how these figures come into
//! PERF.md: `benches/measure.sh --perf --only async-timeout,async-idle,async-short,async-lone`.

mod table;
mod workload;

use std::error::Error;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use async_scale::{Choice, NoTimers, Tickless, Tokio};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

use workload::{Outcome, Workload};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Seconds of a measurement, and those before it.
const SECONDS: f64 = 2.0;
const WARM_UP: f64 = 0.5;

/// Measures timers in the tasks of a runtime, by its workers, and prints a table.
#[derive(Clone, Debug, Parser)]
#[command(name = "async-scale", version)]
struct Arguments {
    /// What the tasks do [default: all]
    #[arg(long, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Whose timers they have [default: all that this build has]
    #[arg(long, value_delimiter = ',')]
    timers: Vec<Choice>,
    /// Threads of the runtime
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Vec<u16>,
    /// How often each is measured; the table has the median
    #[arg(long, value_name = "N", default_value = "3",
        value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Shrinks the 2.5 s of a measurement: a number above 0 and at most 1
    #[arg(long, value_name = "X", default_value = "1")]
    scale: f64,
    /// Measure once, in this process, and print a record as JSON
    #[arg(long)]
    record: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match perform(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("async-scale: {error}");
            ExitCode::FAILURE
        }
    }
}

fn perform(mut arguments: Arguments) -> Result<(), Box<dyn Error>> {
    if arguments.record {
        return match (&arguments.workload[..], &arguments.timers[..], &arguments.workers[..]) {
            (&[workload], &[timers], &[workers]) => {
                let record = measure(workload, timers, workers.into(), arguments.scale)?;
                println!("{record}");
                Ok(())
            }
            _ => Err("a record is of one workload, with one kind of timers and of workers".into()),
        };
    }
    if arguments.workload.is_empty() {
        arguments.workload = Workload::value_variants().to_vec();
    }
    if arguments.timers.is_empty() {
        let all = Choice::value_variants().iter().copied();
        let is_here = |timers: &Choice| cfg!(tokio_unstable) || *timers != Choice::TokioAlt;
        arguments.timers = all.filter(is_here).collect();
    }
    for &workload in &arguments.workload {
        let mut records = Vec::new();
        for &workers in &arguments.workers {
            for _ in 0..arguments.runs {
                for &timers in &arguments.timers {
                    records.push(elsewhere(workload, timers, workers, arguments.scale)?);
                }
            }
        }
        println!("{}", table::table(workload, &records));
    }
    Ok(())
}

/// Measures in a process of its own.
fn elsewhere(
    workload: Workload,
    timers: Choice,
    workers: u16,
    scale: f64,
) -> Result<Value, Box<dyn Error>> {
    let workload = workload.to_possible_value().expect("none is skipped");
    let output = Command::new(std::env::current_exe()?)
        .args(["--record", "--workload", workload.get_name(), "--timers", &timers.name()])
        .args(["--workers", &workers.to_string(), "--scale", &scale.to_string()])
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Measures once: a record for `rivals`.
fn measure(
    workload: Workload,
    timers: Choice,
    workers: usize,
    scale: f64,
) -> Result<Value, Box<dyn Error>> {
    let runtime = timers.runtime(workers)?;
    let times = [WARM_UP, SECONDS].map(|seconds| Duration::from_secs_f64(seconds * scale));
    let times = (times[0], times[1]);
    let outcome = match timers {
        Choice::None => workload.measure(NoTimers, &runtime, workers, times),
        Choice::Tokio | Choice::TokioAlt => workload.measure(Tokio, &runtime, workers, times),
        Choice::Tickless | Choice::TicklessDrive | Choice::TicklessFine => {
            workload.measure(Tickless, &runtime, workers, times)
        }
    };
    let record = record(workload, timers, workers, scale, &outcome);
    runtime.shutdown_background();
    Ok(record)
}

fn record(
    workload: Workload,
    timers: Choice,
    workers: usize,
    scale: f64,
    outcome: &Outcome,
) -> Value {
    let operations = outcome.operations as f64;
    let wall_ns = outcome.wall.as_nanos() as f64;
    let mut extra = json!({
        "per_s": operations * 1e9 / wall_ns,
        "scale": scale,
    });
    if let Some(calls) = outcome.timer_calls {
        extra["timer_calls_per_op"] = (calls as f64 / operations).into();
    }
    let late_ns = &outcome.late_ns;
    if !late_ns.is_empty() {
        let us =
            |share: f64| f64::from(late_ns[((late_ns.len() - 1) as f64 * share) as usize]) / 1e3;
        extra["late_us"] = json!({"p50": us(0.5), "p99": us(0.99), "p999": us(0.999)});
        extra["early"] = outcome.early.into();
    }
    json!({
        "contender": timers.name(),
        "workload": workload.name(),
        "threads": workers,
        "n": outcome.operations,
        "ns_per_op": wall_ns / operations,
        "cpu_ns_per_op": outcome.cpu_ns as f64 / operations,
        "extra": extra,
    })
}

#[test]
fn the_definition_holds() {
    use clap::CommandFactory;
    Arguments::command().debug_assert();
}
