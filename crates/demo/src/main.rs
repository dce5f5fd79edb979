//! A service and its clients, every time-out of which is a timer of one `tickless` engine.
//!
//! ```text
//! cargo run --release -p tickless-demo
//! ```
//!
//! A TCP server and some thousands of clients talk over loopback sockets in one process. Every
//! request arms a timeout that its answer cancels; every packet resets its connection's idle timer;
//! now and then a request stays unanswered or a connection falls silent, and a timer has to fire.
//! An audit follows each timer from arming to its fate, and the program fails if one fires early,
//! twice, after its cancel, or never.
//!
//! Start reading at `timers.rs`: it holds all calls into the engine, which `engine/` makes those of
//! tickless or of tokio. `server.rs` and `client.rs` are the two event loops that use it,
//! `mailbox.rs` is how a firing timer reaches its loop, `audit.rs` the ledger, `plan.rs` the load,
//! `run.rs` one run of it all.

mod args;
mod audit;
mod client;
mod compare;
mod engine;
mod gauges;
mod idle;
mod interrupt;
mod live;
mod mailbox;
mod page;
mod plan;
mod report;
mod run;
mod server;
mod svg;
mod timers;
#[cfg(test)]
mod unsound;
mod usage;
mod verdict;
mod wakeups;
mod wire;
mod words;

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::args::{Args, Command, EngineName};
use crate::engine::{Tickless, Tokio};
use crate::interrupt::Interrupt;
use crate::live::say;
use crate::run::{Outcome, run};
use crate::verdict::{TERMS, verdict};

const SUCCESS: u8 = 0;
const VIOLATION: u8 = 1;
const BAD_ARGUMENTS: u8 = 2;
const COULD_NOT_RUN: u8 = 3;

fn main() -> ExitCode {
    let args = match Command::parse(std::env::args_os()) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Show(text)) => {
            say(text.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("tickless-demo: {message}; try --help");
            return BAD_ARGUMENTS.into();
        }
    };
    match show(&args) {
        Ok(outcomes) => exit_code(&outcomes).into(),
        Err(error) => {
            eprintln!("tickless-demo: {error}");
            COULD_NOT_RUN.into()
        }
    }
}

/// Runs what was asked for, and tells what came of it.
fn show(args: &Args) -> io::Result<Vec<Outcome>> {
    // Before the run, or it would be lost to a slip in the name.
    let page = args.report.as_ref().map(create).transpose()?;
    let interrupt = Interrupt::install()?;
    let engines = if args.compare {
        vec![EngineName::Tickless, EngineName::Tokio]
    } else {
        vec![args.engine]
    };
    let mut outcomes = Vec::new();
    for engine in engines {
        let outcome = match engine {
            EngineName::Tickless => run::<Tickless>(args, &interrupt)?,
            EngineName::Tokio => run::<Tokio>(args, &interrupt)?,
        };
        if args.json {
            say(&outcome.json().to_string());
        } else {
            say(&format!("\n{}\n\n{}\n", outcome.text(), verdict(&outcome)));
        }
        outcomes.push(outcome);
        // Runs of different lengths would not be a comparison.
        if interrupt.is_asked() {
            break;
        }
    }
    if !args.json {
        if outcomes.len() > 1 {
            say(&format!("{}\n", compare::table(&outcomes)));
        }
        say(TERMS);
    }
    if let Some(mut file) = page {
        file.write_all(page::page(&outcomes).as_bytes())?;
    }
    Ok(outcomes)
}

fn create(path: &PathBuf) -> io::Result<File> {
    let because = |error| io::Error::other(format!("cannot write {}: {error}", path.display()));
    File::create(path).map_err(because)
}

/// Names each violation, and fails if there is one.
fn exit_code(outcomes: &[Outcome]) -> u8 {
    let mut code = SUCCESS;
    for outcome in outcomes {
        for violation in outcome.violations() {
            eprintln!("VIOLATION ({}): {violation}", outcome.engine);
            code = VIOLATION;
        }
    }
    code
}
