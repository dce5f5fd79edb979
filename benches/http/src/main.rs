//! An HTTP/1 server under load: what its timers cost it, end to end.
//!
//! Each request starts or moves the timers that servers have: hyper's for the head of a request,
//! one for the silence of a connection, one for the answer (`server`). They are tokio's,
//! tickless's, or none at all (`timers`). One run starts a server as a process of its own, has a
//! load generator ask it (`load`), and prints one record: what the server's process took by
//! request, and the latency that the generator saw. `rivals --perf --only http-closed,http-open`
//! has the runs take turns.
//!
//! The server has the first so many processors to itself as it has workers, and the generator has
//! the others. If there are no others they share all, and get in each other's way.

mod load;
mod pin;
mod server;
mod timers;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use load::Load;
use timers::{NoTimers, Tickless, Tokio};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures an HTTP/1 server under load once, and prints a record as JSON.
///
/// It needs `wrk` for --load closed and `oha` for --load open, on the path or named by the
/// variables WRK and OHA.
#[derive(Clone, Debug, Parser)]
#[command(name = "http-bench", version)]
struct Arguments {
    /// Whose timers the server has
    #[arg(long)]
    timers: Choice,
    /// `closed`: each of 256 connections asks as soon as it has its answer; `open`: 10,000 requests
    /// per second come whether the answers do or not, and latency counts from when one should come
    #[arg(long, default_value = "closed")]
    load: Load,
    /// Threads of the server's runtime
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Shrinks the 4 s of a run: a number above 0 and at most 1
    #[arg(long, value_name = "X", default_value = "1")]
    scale: f64,
    /// Be the server
    #[arg(long, hide = true)]
    serve: bool,
}

/// Whose timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    Tickless,
    Tokio,
    None,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match perform(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("http-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn perform(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let workers = usize::from(arguments.workers);
    if arguments.serve {
        return match arguments.timers {
            Choice::Tickless => server::serve(Tickless, workers),
            Choice::Tokio => server::serve(Tokio, workers),
            Choice::None => server::serve(NoTimers, workers),
        };
    }
    let record = load::measure(arguments)?;
    println!("{record}");
    Ok(())
}

#[test]
fn the_definition_holds() {
    use clap::CommandFactory;
    Arguments::command().debug_assert();
}
