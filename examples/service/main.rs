//! A service and its clients, every time-out of which is a timer of one `tickless` engine.
//!
//! ```text
//! cargo run --release --example service
//! ```
//!
//! A TCP server and some thousands of clients talk over loopback sockets in one process. Every
//! request arms a timeout that its answer cancels; every packet resets its connection's idle timer;
//! now and then a request stays unanswered or a connection falls silent, and a timer has to fire.
//! An audit follows each timer from arming to its fate, and the program fails if one fires early,
//! twice, after its cancel, or never.
//!
//! Start reading at `timers.rs`: it holds all calls into the engine. `server.rs` and `client.rs`
//! are the two event loops that use it, `mailbox.rs` is how a firing timer reaches its loop,
//! `audit.rs` the ledger, `plan.rs` the load.

mod args;
mod audit;
mod client;
mod mailbox;
mod plan;
mod progress;
mod report;
mod server;
mod timers;
mod wire;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tickless::Engine;

use crate::args::{Args, Command, HELP};
use crate::client::Clients;
use crate::plan::Plan;
use crate::progress::{Gauges, Progress};
use crate::report::Report;
use crate::server::Server;

/// Standard streams, two polls, two wakers, the listener and what the engine may need.
const SPARE_DESCRIPTORS: u64 = 64;

const VIOLATION: u8 = 1;
const BAD_ARGUMENTS: u8 = 2;
const COULD_NOT_RUN: u8 = 3;

fn main() -> ExitCode {
    let args = match Command::parse(std::env::args_os().skip(1)) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Help) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("service: {message}; try --help");
            return BAD_ARGUMENTS.into();
        }
    };
    match run(args) {
        Ok(report) => verdict(&report),
        Err(error) => {
            eprintln!("service: {error}");
            COULD_NOT_RUN.into()
        }
    }
}

fn verdict(report: &Report) -> ExitCode {
    if report.args.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.text());
    }
    let violations = report.violations();
    for violation in &violations {
        eprintln!("VIOLATION: {violation}");
    }
    if violations.is_empty() { ExitCode::SUCCESS } else { VIOLATION.into() }
}

fn run(args: Args) -> io::Result<Report> {
    make_room_for(args.connections)?;
    let engine = Engine::new().map_err(|e| io::Error::other(e.to_string()))?;
    let gauges = Arc::new(Gauges::default());
    let started = Instant::now();
    let plan = Plan::starting_now(args.seconds, args.connections);

    let server = Server::bind(plan, engine.clone(), Arc::clone(&gauges))?;
    let finisher = server.finisher();
    let clients = Clients::new(plan, server.address()?, engine.clone(), Arc::clone(&gauges))?;
    let server = thread::Builder::new().name("server".into()).spawn(|| server.run())?;
    let clients = thread::Builder::new().name("clients".into()).spawn(|| clients.run())?;

    watch(&clients, plan, &gauges);
    let clients = join(clients);
    finisher.finish();
    let (server, server_timers) = join(server)?;
    let (clients, client_timers) = clients?;

    // Once the engine has stopped nothing can fire any more, and only then is the audit final.
    let left = engine.stop().map_err(|e| io::Error::other(e.to_string()))?;
    let mut books = server_timers.close();
    books.add(client_timers.close());
    Ok(Report {
        args,
        clients,
        server,
        books,
        stats: engine.stats(),
        given_back: left.len() as u64,
        peak_pending: gauges.peak_pending(),
        cpu: cpu_time(),
        wall: started.elapsed(),
    })
}

/// Two descriptors for each connection, as both of its ends live in this process; and a third where
/// it can be had, as the server may not have noticed yet that a client hung up and dialled anew.
fn make_room_for(connections: usize) -> io::Result<()> {
    let connections = connections as u64;
    let needed = 2 * connections + SPARE_DESCRIPTORS;
    let allowed = rlimit::increase_nofile_limit(needed + connections)?;
    if allowed < needed {
        return Err(io::Error::other(format!(
            "{connections} connections need {needed} open files, but only {allowed} are allowed: \
             raise the limit (ulimit -Hn) or ask for fewer --connections"
        )));
    }
    Ok(())
}

/// Shows the progress until the clients have ended.
fn watch<T>(clients: &JoinHandle<T>, plan: Plan, gauges: &Gauges) {
    let mut progress = Progress::new(plan);
    while !clients.is_finished() {
        thread::sleep(Duration::from_millis(100));
        progress.update(gauges);
    }
    progress.finish();
}

fn join<T>(thread: JoinHandle<io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("an event loop panicked")))
}

/// User and system time of this process so far.
#[cfg(unix)]
fn cpu_time() -> Option<Duration> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writes of one rusage.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if answer != 0 {
        return None;
    }
    // SAFETY: all zeroes is a valid rusage, and the call has filled it in.
    let usage = unsafe { usage.assume_init() };
    let duration = |time: libc::timeval| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).ok()?);
        Some(seconds + Duration::from_micros(u64::try_from(time.tv_usec).ok()?))
    };
    Some(duration(usage.ru_utime)? + duration(usage.ru_stime)?)
}

#[cfg(not(unix))]
fn cpu_time() -> Option<Duration> {
    None
}
