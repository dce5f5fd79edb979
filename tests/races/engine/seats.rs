//! Seats among threads: what a cancelled timer leaves serves another thread, and reapers sweep
//! what serves nobody. (`tests/suite/engine/seats.rs` has what one thread does.)

use std::thread;
use std::time::{Duration, Instant};

use support::mpsc;
use support::patience::PATIENCE;
use support::threads::{on_threads, spawn};
use tickless::{Batch, Builder, Engine, Handle};

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

/// Dead entries are let be while they are no more than the pending timers, or than 4096; and a
/// thread looks only after every 32 of them.
const DEAD_AT_MOST: u64 = 4096 + SLACK;

const SLACK: u64 = 128;

/// As in other tests, and at least `n`: with fewer there is nothing to sweep.
fn scaled(n: u64) -> u64 {
    support::scaled(n).max(n)
}

fn drop_all(batch: Batch<'_, u64>) {
    batch.for_each(drop);
}

fn threaded(shards: usize) -> Engine<u64> {
    Builder::new().shards(shards).build_with_handler(drop_all).unwrap()
}

fn schedule_many(engine: &Engine<u64>, delay: Duration, n: u64) -> Vec<Handle<u64>> {
    // Of different lengths, so that many buckets have some.
    let delays = (0..n).map(|n| delay + MS * (n as u32 % 100_000));
    delays.map(|delay| engine.schedule(delay, 0).unwrap()).collect()
}

fn cancel_all(handles: Vec<Handle<u64>>) {
    assert!(handles.into_iter().all(Handle::cancel));
}

#[test]
fn seats_come_back_to_the_thread_that_schedules_when_another_cancels() {
    let engine = threaded(2);
    let (send_over, take_over) = mpsc::channel::<Vec<Handle<u64>>>();
    let (send_back, take_back) = mpsc::channel();
    let canceller = spawn(move || {
        for batch in take_over {
            cancel_all(batch);
            send_back.send(()).unwrap();
        }
    });
    let rounds = scaled(200);
    for _ in 0..rounds {
        let batch = (0..64).map(|_| engine.schedule(HOUR, 0).unwrap()).collect();
        send_over.send(batch).unwrap();
        take_back.recv_timeout(PATIENCE).unwrap();
    }
    drop(send_over);
    canceller.join().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.scheduled, stats.cancelled), (rounds * 64, rounds * 64));
    assert!(stats.seated > stats.scheduled / 10 * 8, "{stats:?}");
    assert!(stats.dead <= DEAD_AT_MOST, "{stats:?}");
}

#[test]
fn the_reapers_sweep_a_storm_of_cancels_by_themselves() {
    let engine = threaded(2);
    on_threads::<2>(|| cancel_all(schedule_many(&engine, HOUR, scaled(15_000))));
    let begin = Instant::now();
    while engine.stats().dead > DEAD_AT_MOST {
        assert!(begin.elapsed() < PATIENCE, "{:?}", engine.stats());
        thread::yield_now();
    }
}
