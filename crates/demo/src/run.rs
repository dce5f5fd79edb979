//! One run: the service and its clients on one engine, from the first dial to the closed books.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::audit::Books;
use crate::client::{ClientCounts, Clients};
use crate::engine::{Counts, TimerEngine};
use crate::gauges::Gauges;
use crate::idle::Idle;
use crate::interrupt::Interrupt;
use crate::live::{Live, Sample, say};
use crate::plan::{Plan, REQUESTS_PER_S};
use crate::server::{Server, ServerCounts};
use crate::usage::Usage;
use crate::words::grouped;

/// Standard streams, two polls, two wakers, the listener and what the engine may need.
const SPARE_DESCRIPTORS: u64 = 64;

/// From one look at the gauges and the interrupt to the next.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// All that is known when the engine has stopped.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) engine: &'static str,
    pub(crate) connections: usize,
    /// How long requests were issued.
    pub(crate) load: Duration,
    /// From the first dial until everything had come to rest.
    pub(crate) wall: Duration,
    pub(crate) interrupted: bool,
    /// Idle timers beside the load.
    pub(crate) idle: u64,
    pub(crate) clients: ClientCounts,
    pub(crate) server: ServerCounts,
    pub(crate) books: Books,
    /// The engine's own counters, to be compared with the books.
    pub(crate) counts: Option<Counts>,
    pub(crate) peak_pending: u64,
    /// Of the whole process from the first dial to the rest; `None` where it cannot be had.
    pub(crate) usage: Option<Usage>,
    /// How often the engine's threads woke up; `None` where it cannot be had.
    pub(crate) wake_ups: Option<u64>,
    pub(crate) samples: Vec<Sample>,
}

/// Runs the service as the arguments say.
pub(crate) fn run<E: TimerEngine>(args: &Args, interrupt: &Interrupt) -> io::Result<Outcome> {
    make_room_for(args.connections)?;
    announce::<E>(args);
    let engine = E::start()?;
    let gauges = Arc::new(Gauges::new());
    let idle = fill(args, engine.clone(), &gauges, interrupt)?;

    let plan = Plan::starting_now(args.seconds, args.connections);
    let used = Usage::now();
    let server = Server::bind(plan.clone(), engine.clone(), Arc::clone(&gauges))?;
    let finisher = server.finisher();
    let address = server.address()?;
    let clients = Clients::new(plan.clone(), address, engine.clone(), Arc::clone(&gauges))?;
    let bell = clients.mailbox();
    let server = thread::Builder::new().name("server".into()).spawn(|| server.run())?;
    let clients = thread::Builder::new().name("clients".into()).spawn(|| clients.run())?;

    let mut live = Live::new(&plan, &gauges, args.json);
    while !clients.is_finished() {
        thread::sleep(LOOK_EVERY);
        if interrupt.is_asked() && !plan.is_over() {
            plan.end_now();
            bell.ring();
        }
        live.look();
    }
    let clients = join(clients);
    finisher.finish();
    let (server, server_accounts) = join(server)?;
    let (clients, client_accounts) = clients?;
    let (samples, wake_ups) = live.finish();
    let usage = Usage::now().zip(used).map(|(now, before)| now.since(before));
    let wall = plan.started.elapsed();

    // Once the engine has stopped nothing can fire any more, and only then is the audit final.
    let idle_count = idle.len();
    let idle = idle.cancel();
    let counts = engine.stop()?;
    let mut books = server_accounts.close();
    books.add(client_accounts.close());
    books.add(idle.close());
    Ok(Outcome {
        engine: E::NAME,
        connections: args.connections,
        load: plan.end().duration_since(plan.started),
        wall,
        interrupted: interrupt.is_asked(),
        idle: idle_count,
        clients,
        server,
        books,
        counts,
        peak_pending: gauges.peak_pending(),
        usage,
        wake_ups,
        samples,
    })
}

/// The first line: what will be done, and for how long.
fn announce<E: TimerEngine>(args: &Args) {
    if !args.json {
        say(&format!(
            "{} connections over loopback for {} s, with at most {} requests per second; the \
             timers are {}'s. Ctrl-C ends the run with its report.",
            grouped(args.connections as u64),
            grouped(args.seconds),
            grouped(REQUESTS_PER_S),
            E::NAME,
        ));
    }
}

fn fill<E: TimerEngine>(
    args: &Args,
    engine: E,
    gauges: &Gauges,
    interrupt: &Interrupt,
) -> io::Result<Idle<E>> {
    let begun = Instant::now();
    let run = Duration::from_secs(args.seconds);
    let idle = Idle::fill(engine, args.timers, run, gauges, interrupt)?;
    if args.timers > 0 && !args.json {
        let each = begun.elapsed().as_nanos() as f64 / idle.len().max(1) as f64;
        let count = grouped(idle.len());
        say(&format!("{count} idle timers armed beside the load, in {each:.0} ns each"));
    }
    Ok(idle)
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

fn join<T>(thread: JoinHandle<io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("an event loop panicked")))
}
