//! The processes that run histories.
//!
//! A strand tells its supervisor in lines which history it is about to run, and in the end how
//! often each event was reached. A history that fails ends the process: at its first panic, wherever
//! that is, because the engine contains those of tasks. (Planned ones ask no hook.)

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use crate::arguments::{Arguments, Limit};
use crate::events;
use crate::history::History;

/// From now on the first panic ends the process.
fn end_at_panics() {
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{info}");
        std::process::exit(101);
    }));
}

/// Runs one history, of which all steps or these.
pub(crate) fn one(seed: u64, keep: Option<&[usize]>, tells: bool) -> ExitCode {
    let mut history = History::of(seed);
    if let Some(steps) = keep {
        history.keep(steps);
    }
    if tells {
        print!("{}", history.steps());
    }
    end_at_panics();
    history.run();
    println!("seed {seed}: {} steps, as the model says", history.len());
    ExitCode::SUCCESS
}

/// Runs each `stride`th history, until the limit.
pub(crate) fn strand(first: u64, stride: u64, arguments: &Arguments) -> ExitCode {
    let begin = Instant::now();
    let goes_on = |seed: u64| match arguments.limit {
        Limit::Time(time) => begin.elapsed() < time,
        Limit::Count(count) => seed - arguments.from < count,
    };
    end_at_panics();
    let mut seed = first;
    while goes_on(seed) {
        tell(&format!("run {seed}"));
        History::of(seed).run();
        seed += stride;
    }
    for (name, count) in events::counts() {
        tell(&format!("event {name} {count}"));
    }
    tell("done");
    ExitCode::SUCCESS
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    let told = writeln!(out, "{line}").and_then(|()| out.flush());
    told.expect("the supervisor listens as long as it lives");
}
