//! One thread per core, each with an event loop that drives a shard of its own.
//!
//! ```text
//! cargo run --release --example thread_per_core
//! ```
//!
//! Every thread serves its sessions, which only it ever touches, without a lock. The engine has no
//! threads: each loop runs the turns of its shard, does what was due, and sleeps until the shard
//! wants its next turn. If somebody else schedules there for earlier than that, `on_earlier` wakes
//! the loop; with `mio` it would write to the loop's `Waker`.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::thread::{self, ScopedJoinHandle, Thread};
use std::time::{Duration, Instant};

use tickless::{Batch, Builder, Driver, Engine};

/// Sessions of each thread. One more payload is what the main thread schedules on every shard.
const SESSIONS: u32 = 500;
const VISIT: u32 = SESSIONS;

const BEATS: u32 = 40;
const EVERY: Duration = Duration::from_millis(10);

thread_local! {
    /// What was due in this turn. The handler runs inside the turn, on the thread that drives it.
    static DUE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// A thread's event loop: to the last beat, and the visit. Answers how many turns that took.
fn serve(engine: &Engine<u32>, shard: usize) -> Result<u32, Box<dyn std::error::Error>> {
    engine.bind_thread(shard).unwrap();
    let mut beats_left = vec![BEATS; SESSIONS as usize];
    for session in 0..SESSIONS {
        // Spread over the first interval, so that not all beat at once.
        engine.schedule_detached(EVERY * session / SESSIONS, session)?;
    }
    beats_left.push(1); // The visit.
    let (mut left, mut turns) = (SESSIONS * BEATS + 1, 0);
    loop {
        engine.turn(shard)?;
        turns += 1;
        for due in DUE.take() {
            left -= 1;
            beats_left[due as usize] -= 1;
            if beats_left[due as usize] > 0 {
                engine.schedule_detached(EVERY, due)?;
            }
        }
        if left == 0 {
            break;
        }
        // Other sources of events would be polled here, with the same timeout. What was scheduled
        // just now may be due earlier than the turn knew.
        match engine.look_ahead(shard)?.sleep(Instant::now()) {
            Some(sleep) => thread::park_timeout(sleep),
            None => thread::park(),
        }
    }
    assert!(beats_left.iter().all(|left| *left == 0), "each as often as it should");
    Ok(turns)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cores = thread::available_parallelism()?.get();
    let loops: Arc<[OnceLock<Thread>]> = (0..cores).map(|_| OnceLock::new()).collect();
    let sleepers = loops.clone();
    let wake = move |shard: usize| sleepers[shard].get().map_or((), Thread::unpark);
    let builder = Builder::new().shards(cores).driver(Driver::Caller).on_earlier(wake);
    let engine = builder.build_typed(|batch: Batch<'_, u32>| {
        DUE.with_borrow_mut(|due| due.extend(batch));
    })?;

    let turns = thread::scope(|scope| {
        let serve_one = |shard: usize| {
            loops[shard].set(thread::current()).expect("one loop per shard");
            serve(&engine, shard).expect("the engine runs")
        };
        let spawn = |shard| scope.spawn(move || serve_one(shard));
        let threads: Vec<_> = (0..cores).map(spawn).collect();
        // A visit on each shard: from another thread, so the loop may be asleep for longer.
        for shard in 0..cores {
            engine.bind_thread(shard).unwrap();
            engine.schedule_detached(EVERY / 4, VISIT).expect("the engine runs");
        }
        let join = |thread: ScopedJoinHandle<'_, u32>| thread.join().expect("it does not panic");
        threads.into_iter().map(join).collect::<Vec<_>>()
    });

    for (shard, turns) in turns.iter().enumerate() {
        println!("shard {shard}: {BEATS} beats of {SESSIONS} sessions in {turns} turns");
    }
    let lateness = engine.stats().lateness;
    println!("half were at most {:.1?} late, 99 of 100 {:.1?}", lateness.p50, lateness.p99);
    assert_eq!(lateness.count, u64::from(SESSIONS * BEATS + 1) * cores as u64);
    assert!(engine.stop()?.is_empty(), "nothing is left");
    Ok(())
}
