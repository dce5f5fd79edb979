//! Timeouts and resets of asynchronous code, beside tokio's own: CPU time of the whole process
//! per operation. Rounds of both alternate, so that whatever disturbs the machine disturbs both;
//! what is printed is the median round. `cargo bench -p benches --bench future -- 21` runs so many
//! rounds.
//!
//! Both run on the same tokio runtime. *soon*: a timeout of 5 s around a future that is ready at
//! its second poll, so that a timer is scheduled and cancelled. *at once*: ready at the first
//! poll, which needs no timer. *reset*: a sleep that waits is moved on by 5 s and polled. *fire*:
//! a hundred sleeps of a millisecond are awaited together.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LONG: Duration = Duration::from_secs(5);

const MS: Duration = Duration::from_millis(1);

/// Sleeps that are awaited together.
const CROWD: u64 = 100;

/// Ready at the second poll.
struct Soon(bool);

/// So many operations.
type Body = fn(u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Something to do, and how often in a round.
struct Work {
    name: &'static str,
    ops: u64,
    ours: Body,
    theirs: Body,
}

impl Future for Soon {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The bodies of one side: both have the same names.
macro_rules! bodies {
    ($($side:ident)::+, $Instant:ty) => {{
        use $($side)::+ as side;
        let bodies: [Body; 4] = [
            |ops| Box::pin(async move {
                for _ in 0..ops {
                    assert!(side::timeout(LONG, Soon(false)).await.is_ok());
                }
            }),
            |ops| Box::pin(async move {
                for _ in 0..ops {
                    assert!(side::timeout(LONG, ready(())).await.is_ok());
                }
            }),
            |ops| Box::pin(async move {
                let mut sleep = std::pin::pin!(side::sleep(LONG));
                for _ in 0..ops {
                    sleep.as_mut().reset(<$Instant>::now() + LONG);
                    assert!(futures_util::poll!(&mut sleep).is_pending());
                }
            }),
            |ops| Box::pin(async move {
                for _ in 0..ops / CROWD {
                    join_all((0..CROWD).map(|_| side::sleep(MS))).await;
                }
            }),
        ];
        bodies
    }};
}

fn works(scale: u64) -> Vec<Work> {
    let (ours, theirs) = (bodies!(tickless, Instant), bodies!(tokio::time, tokio::time::Instant));
    let names = [("soon", 200), ("at once", 500), ("reset", 500), ("fire", 5)];
    let work = |((ours, theirs), (name, thousands)): ((Body, Body), (_, u64))| {
        let ops = (thousands * scale).max(CROWD);
        Work { name, ops, ours, theirs }
    };
    ours.into_iter().zip(theirs).zip(names).map(work).collect()
}

/// What the process has used so far.
fn cpu() -> Duration {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes a `timespec`, and this is one.
        let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
        assert_eq!(failed, 0, "the system tells a process's CPU time");
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    panic!("only Unix systems tell what a process has used");
}

/// Nanoseconds of CPU per operation, with one task per thread.
fn round(runtime: &Runtime, threads: u64, body: Body, ops: u64) -> f64 {
    let each = (ops / threads).max(CROWD);
    let begin = cpu();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..threads).map(|_| tokio::spawn(body(each))).collect();
        for task in tasks {
            task.await.expect("a body does not panic");
        }
    });
    (cpu() - begin).as_nanos() as f64 / (each * threads) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo bench` says so; `cargo test --benches` does not.
    let measures = arguments.iter().any(|argument| argument == "--bench");
    let asked = arguments.iter().find_map(|argument| argument.parse().ok());
    let (rounds, scale) = if measures { (asked.unwrap_or(11), 1000) } else { (1, 0) };
    println!("ns of CPU per operation, median of {rounds} rounds: tickless, tokio");
    for threads in [1, 2] {
        let runtime = match threads {
            1 => Builder::new_current_thread().enable_time().build(),
            _ => Builder::new_multi_thread().worker_threads(threads).enable_time().build(),
        };
        let runtime = runtime.expect("a runtime starts");
        for Work { name, ops, ours, theirs } in works(scale) {
            let rounds = (0..=rounds)
                .map(|_| [ours, theirs].map(|body| round(&runtime, threads as u64, body, ops)));
            // The first is for warming up.
            let (ours, theirs) = rounds.skip(1).map(|[ours, theirs]| (ours, theirs)).unzip();
            println!("{threads} {name:8} {:8.1} {:8.1}", median(ours), median(theirs));
        }
    }
}
