//! Shards that share threads: what it costs to let timers fire that lie on several shards. A table:
//! wake-ups and CPU time per second, and how late timers are, for one thread that serves all shards
//! as long as it keeps up, and for one thread each.
//!
//! All timers are scheduled beforehand, by 64 threads, and are due at random times. So whatever
//! runs while they fire belongs to the engine.

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tickless::{Batch, Engine};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const THREADS: usize = 64;

const SHARDS: [usize; 5] = [1, 2, 8, 16, 64];

/// Timers that fire per second.
const RATES: [u64; 3] = [2_000, 20_000, 200_000];

/// How long timers are scheduled, and how long they fire.
const BEFORE: Duration = Duration::from_secs(2);
const DURING: Duration = Duration::from_secs(4);

/// What the threads of this process have done so far.
#[derive(Clone, Copy)]
struct Used {
    cpu_ns: u64,
    switches: u64,
}

impl Used {
    fn now() -> Used {
        let mut used = Used { cpu_ns: 0, switches: 0 };
        for task in fs::read_dir("/proc/self/task").expect("Linux").flatten() {
            let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let first = read("schedstat").split(' ').next().and_then(|ns| ns.parse().ok());
            used.cpu_ns += first.unwrap_or(0_u64);
            let status = read("status");
            let counts = status.lines().filter_map(|line| line.split_once("_ctxt_switches:"));
            used.switches += counts.filter_map(|(_, n)| n.trim().parse::<u64>().ok()).sum::<u64>();
        }
        used
    }
}

fn main() {
    // Without the flag, it is a test whether this still runs.
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let (scale, shards, rates) = match is_measured {
        true => (1, &SHARDS[..], &RATES[..]),
        false => (200, &SHARDS[3..4], &RATES[..1]),
    };
    println!("timers/s  shards  threads  wake-ups/s  switches/s  CPU ms/s  p50 us  p99 us  max us");
    for &rate in rates {
        for &shards in shards {
            measure(rate, shards, 1, scale);
            if shards > 1 {
                measure(rate, shards, shards, scale);
            }
        }
    }
}

/// One line of the table.
fn measure(rate: u64, shards: usize, least_threads: usize, scale: u32) {
    let (before, during) = (BEFORE / scale, DURING / scale);
    let builder = Engine::builder().shards(shards).reapers(least_threads, shards);
    let engine = builder.build_typed(|batch: Batch<'_, ()>| batch.for_each(drop)).unwrap();
    let timers = (rate as f64 * during.as_secs_f64()) as u64;
    let begin = engine.now() + before;
    let scheduled = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (engine, scheduled) = (&engine, &scheduled);
            scope.spawn(move || {
                engine.bind_thread(number % shards).unwrap();
                let mut random = fastrand::Rng::with_seed(number as u64);
                for _ in 0..timers / THREADS as u64 {
                    let deadline = begin + during.mul_f64(random.f64());
                    engine.schedule_detached(deadline, ()).unwrap();
                }
                scheduled.wait();
            });
        }
        scheduled.wait();
    });
    thread::sleep(begin.saturating_duration_since(engine.now()));
    let (used, wake_ups) = (Used::now(), engine.stats().wake_ups);
    thread::sleep((begin + during).saturating_duration_since(engine.now()));
    let (after, stats) = (Used::now(), engine.stats());
    let per_s = |n: u64| n as f64 / during.as_secs_f64();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{rate:8}  {shards:6}  {:>7}  {:10.0}  {:10.0}  {:8.1}  {:6.0}  {:6.0}  {:6.0}",
        if least_threads == shards { "each" } else { "shared" },
        per_s(stats.wake_ups - wake_ups),
        // (In a short test, threads that have scheduled may still be there at first.)
        per_s(after.switches.saturating_sub(used.switches)),
        per_s(after.cpu_ns.saturating_sub(used.cpu_ns)) / 1e6,
        us(stats.lateness.p50),
        us(stats.lateness.p99),
        us(stats.lateness.max),
    );
}
