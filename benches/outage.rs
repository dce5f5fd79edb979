//! Tasks that are stuck: how late all other timers are. A table, over shards and the number of
//! tasks that are stuck at a time, without takeovers and with them.
//!
//! A thousand timers per second fire at random times. At the beginning of each second, one task on
//! the first shard, or one on each of the first two, sleeps for half a second.

use std::thread;
use std::time::Duration;

use tickless::Engine;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Timers that fire per second.
const RATE: u64 = 1_000;

const SECOND: Duration = Duration::from_secs(1);

const STUCK: Duration = Duration::from_millis(500);

fn main() {
    // Without the flag, it is a test whether this still runs.
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let (seconds, shards) = if is_measured { (8, 1..=4) } else { (1, 2..=2) };
    println!("shards  stuck  takeover   p50 us   p99 us   max us  takeovers");
    for shards in shards {
        for stuck in [1, 2] {
            measure(shards, stuck, false, seconds);
            measure(shards, stuck, true, seconds);
        }
    }
}

/// One line of the table.
fn measure(shards: usize, stuck: usize, takes_over: bool, seconds: u32) {
    let after = takes_over.then_some(Duration::from_millis(5));
    let engine = Engine::builder().shards(shards).takeover(after).build().unwrap();
    let begin = engine.now() + Duration::from_millis(200);
    thread::scope(|scope| {
        for shard in 0..shards {
            let engine = &engine;
            // Those that get stuck come first in their bucket.
            let here = (0..stuck).filter(|number| number % shards == shard).count();
            scope.spawn(move || {
                engine.bind_thread(shard).unwrap();
                for second in (0..seconds).map(|second| begin + SECOND * second) {
                    for _ in 0..here {
                        engine.schedule_detached(second, || thread::sleep(STUCK)).unwrap();
                    }
                }
                let mut random = fastrand::Rng::with_seed(shard as u64);
                for _ in 0..RATE * u64::from(seconds) / shards as u64 {
                    let deadline = begin + (SECOND * seconds).mul_f64(random.f64());
                    engine.schedule_detached(deadline, || ()).unwrap();
                }
            });
        }
    });
    // All have fired by then, also those behind the last task.
    let end = begin + SECOND * (seconds + 2);
    thread::sleep(end.saturating_duration_since(engine.now()));
    let stats = engine.stats();
    assert_eq!(stats.pending, 0, "{stats}");
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{shards:6}  {stuck:5}  {:>8}  {:7.0}  {:7.0}  {:7.0}  {:9}",
        after.map_or("none".to_owned(), |after| format!("{after:?}")),
        us(stats.lateness.p50),
        us(stats.lateness.p99),
        us(stats.lateness.max),
        stats.takeovers,
    );
}
