//! Sleeps that end, on the runtimes that people use: with the runtime's own timer, with an engine
//! that has a thread, and with an engine that a task of the runtime serves. They take turns, so
//! that whatever disturbs the machine disturbs all: median CPU ns of the process per sleep of a
//! millisecond. `cargo bench -p benches --features studies --bench future_fire -- 11` makes so many
//! rounds.
//!
//! *joined*: a task awaits a hundred together, again and again; *tasks*: a hundred tasks await one
//! each, again and again; *one*: a task awaits one after another. With two threads, twice as many
//! tasks.

use std::future::{Future, pending};
use std::pin::Pin;
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use tickless::{Driver, Engine};
use tokio::runtime::Runtime;

use bench_support::runtime::{cpu, runtime};
use bench_support::turns::{median, rounds};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MS: Duration = Duration::from_millis(1);

const CROWD: u64 = 100;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where tasks run.
enum Executor {
    Tokio(Runtime),
    Smol(&'static smol::Executor<'static>),
}

/// Whose sleeps.
trait Timers: Copy + Send + 'static {
    fn sleep(self) -> impl Future<Output: Send> + Send;
}

/// The ambient engine's.
#[derive(Clone, Copy)]
struct Tickless;

#[derive(Clone, Copy)]
struct Tokio;

#[derive(Clone, Copy)]
struct AsyncIo;

impl Timers for Tickless {
    fn sleep(self) -> impl Future<Output: Send> + Send {
        tickless::sleep(MS)
    }
}

impl Timers for Tokio {
    fn sleep(self) -> impl Future<Output: Send> + Send {
        tokio::time::sleep(MS)
    }
}

impl Timers for AsyncIo {
    fn sleep(self) -> impl Future<Output: Send> + Send {
        smol::Timer::after(MS)
    }
}

const WORKS: [&str; 3] = ["joined", "tasks", "one"];

/// The tasks of a work, each for so many rounds; and how many sleeps that makes.
fn jobs(work: &str, timers: impl Timers, threads: u64, rounds: u64) -> (Vec<Job>, u64) {
    let joined = move || -> Job {
        Box::pin(async move {
            for _ in 0..rounds {
                join_all((0..CROWD).map(|_| timers.sleep())).await;
            }
        })
    };
    let alone = move || -> Job {
        Box::pin(async move {
            for _ in 0..rounds {
                timers.sleep().await;
            }
        })
    };
    let sleeps = threads * rounds;
    match work {
        "joined" => ((0..threads).map(|_| joined()).collect(), CROWD * sleeps),
        "tasks" => ((0..CROWD * threads).map(|_| alone()).collect(), CROWD * sleeps),
        _ => ((0..threads).map(|_| alone()).collect(), sleeps),
    }
}

impl Executor {
    /// The calling thread is one of its threads.
    fn smol(threads: u64) -> Executor {
        let executor: &_ = Box::leak(Box::new(smol::Executor::new()));
        for _ in 1..threads {
            thread::spawn(move || smol::block_on(executor.run(pending::<()>())));
        }
        Executor::Smol(executor)
    }

    fn name(&self) -> &'static str {
        match self {
            Executor::Tokio(_) => "tokio",
            Executor::Smol(_) => "smol",
        }
    }

    fn serve(&self, engine: &Engine) {
        match self {
            Executor::Tokio(runtime) => {
                runtime.spawn(engine.drive(|at| tokio::time::sleep_until(at.into())));
            }
            Executor::Smol(executor) => {
                executor.spawn(engine.drive(smol::Timer::at)).detach();
            }
        }
    }

    fn own_jobs(&self, work: &str, threads: u64, rounds: u64) -> (Vec<Job>, u64) {
        match self {
            Executor::Tokio(_) => jobs(work, Tokio, threads, rounds),
            Executor::Smol(_) => jobs(work, AsyncIo, threads, rounds),
        }
    }

    /// Runs all to their ends.
    fn run(&self, jobs: Vec<Job>) {
        match self {
            Executor::Tokio(runtime) => runtime.block_on(async {
                let tasks: Vec<_> = jobs.into_iter().map(tokio::spawn).collect();
                for task in tasks {
                    task.await.expect("a job does not panic");
                }
            }),
            Executor::Smol(executor) => smol::block_on(executor.run(async {
                let tasks: Vec<_> = jobs.into_iter().map(|job| executor.spawn(job)).collect();
                for task in tasks {
                    task.await;
                }
            })),
        }
    }
}

/// The CPU time of the process for each sleep.
fn measure(executor: &Executor, (jobs, sleeps): (Vec<Job>, u64)) -> f64 {
    let begin = cpu();
    executor.run(jobs);
    (cpu() - begin).as_nanos() as f64 / sleeps as f64
}

fn main() {
    let (turns, rounds) = rounds(200, 2);
    println!("CPU ns per sleep, median of {turns} rounds: the runtime's own, an engine with a");
    println!("thread, an engine that a task serves");
    for threads in [1, 2] {
        for executor in [Executor::Tokio(runtime(threads)), Executor::smol(threads)] {
            let threaded = Engine::new().expect("an engine starts");
            let driven = Engine::builder().driver(Driver::Caller).shards(threads as usize);
            let driven = driven.build().expect("these settings are valid");
            executor.serve(&driven);
            for work in WORKS {
                let mut figures = [const { Vec::new() }; 3];
                // The first is for warming up.
                for turn in 0..=turns {
                    let own = measure(&executor, executor.own_jobs(work, threads, rounds));
                    let engines = [&threaded, &driven].map(|engine| {
                        let (jobs, sleeps) = jobs(work, Tickless, threads, rounds);
                        let enter = |job| Box::pin(engine.entered(job)) as Job;
                        measure(&executor, (jobs.into_iter().map(enter).collect(), sleeps))
                    });
                    let round = [own, engines[0], engines[1]];
                    if turn > 0 {
                        figures.iter_mut().zip(round).for_each(|(all, one)| all.push(one));
                    }
                }
                let [own, threaded, driven] = figures.map(median);
                let name = executor.name();
                println!("{threads} {name:6} {work:8} {own:9.0} {threaded:9.0} {driven:9.0}");
            }
            driven.stop().expect("nothing of it runs");
        }
    }
}
