//! A simulation of the engine: histories from seeds, each compared with a naive model.
//!
//! One seed decides everything about a history: what kind it is, how the engine is built, and each
//! step. A history runs in a process of its own family (`supervisor`), so that a crash and a hang
//! are found as a failed comparison is. One that fails is made small and told as a command.

mod arguments;
#[cfg(all(events, coherence))]
mod directed;
mod doors;
mod draw;
mod engine_case;
mod events;
mod history;
#[cfg(all(events, coherence))]
mod meanwhile;
#[cfg(all(events, coherence))]
mod pairs;
mod shard_case;
mod shrink;
mod supervisor;
mod threads;
mod worker;

use std::process::ExitCode;

use arguments::{Arguments, Mode};

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(complaint) => {
            eprintln!("{complaint}\n\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match &arguments.mode {
        Mode::One { seed, keep } => worker::one(*seed, keep.as_deref(), arguments.tells),
        Mode::Strand { first, stride } => worker::strand(*first, *stride, &arguments),
        #[cfg(all(events, coherence))]
        Mode::Directed => directed::run(),
        #[cfg(all(events, coherence))]
        Mode::Pairs { most } => pairs::run(*most),
        #[cfg(not(all(events, coherence)))]
        Mode::Directed | Mode::Pairs { .. } => {
            eprintln!("the engine tells of nothing: compile it as proofs/simulation/run.sh does");
            ExitCode::FAILURE
        }
        Mode::Many => supervisor::many(&arguments),
    }
}
