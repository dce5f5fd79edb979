//! An HTTP/1 server under load: what its timers cost it, end to end.
//!
//! Each request starts or moves the timers that servers have: hyper's for the head of a request,
//! one for the silence of a connection, one for the answer (`server`). They are tokio's,
//! tickless's, or none at all (`timers`; the runtimes are those of `async-scale`). One run starts a
//! server as a process of its own, has a load generator ask it (`load`), and prints one record:
//! what the server's process took by request, and the latency that the generator saw. `rivals
//! --perf --only http-closed,http-open` has the runs take turns.
//!
//! The server has the first so many processors to itself as it has workers, and the generator has
//! the others. If there are no others they share all, and get in each other's way.
//!
//! With `--delay-ms`, each answer takes so long, by the server's timers. So tens of thousands of
//! connections wait at a time. Each needs a port of the system (`net.ipv4.ip_local_port_range`) and
//! two open files, and the server has to accept them as fast as they come (`net.core.somaxconn`).

mod limits;
mod load;
mod pin;
mod server;
mod timers;

use std::error::Error;
use std::process::ExitCode;

use async_scale::{Choice, NoTimers, Tickless, Tokio};
use clap::Parser;

use load::Load;

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
    /// `closed`: each connection asks as soon as it has its answer; `open`: requests come at a
    /// fixed rate, and latency counts from the time at which a request should be sent
    #[arg(long, default_value = "closed")]
    load: Load,
    /// Threads of the server's runtime
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Connections that stay open
    #[arg(long, value_name = "N", default_value = "256",
        value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,
    /// Threads of the generator [default: one for each processor that the server leaves, at most
    /// 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    generators: Option<u16>,
    /// For --load open: requests per second
    #[arg(long, value_name = "N", default_value = "10000",
        value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How many milliseconds each answer takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    delay_ms: Option<u32>,
    /// How long to measure, with the time that the generator needs to connect
    #[arg(long, value_name = "N", default_value = "4",
        value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    /// Shrinks the seconds of a run: a number above 0 and at most 1
    #[arg(long, value_name = "X", default_value = "1")]
    scale: f64,
    /// Be the server
    #[arg(long, hide = true)]
    serve: bool,
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
    if arguments.serve {
        let runtime = arguments.timers.runtime(arguments.workers.into())?;
        return match arguments.timers {
            Choice::Tickless | Choice::TicklessDrive | Choice::TicklessFine => {
                server::serve(Tickless, &runtime)
            }
            Choice::Tokio | Choice::TokioAlt => server::serve(Tokio, &runtime),
            Choice::None => server::serve(NoTimers, &runtime),
        };
    }
    if arguments.delay_ms.is_some() && arguments.timers == Choice::None {
        return Err("without timers, no answer takes a time".into());
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
