//! Shards that share threads: every shard is served, and a stuck task holds no other shard up.
//! (How many wake-ups that takes, and what is done about slow turns, is in
//! `tests/realtime/groups.rs`.)

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use support::mpsc;
use support::on_shard::schedule_on;
use support::patience::PATIENCE;
use support::random::Random;
use support::scaled;
use tickless::{BuildError, Builder, Engine};

const MS: Duration = Duration::from_millis(1);

fn builder(shards: usize) -> Builder {
    Engine::builder().shards(shards)
}

#[test]
fn one_thread_serves_every_shard() {
    for shards in [1, 2, 7, 64] {
        let engine = builder(shards).reapers(1, 1).takeover(None).build().unwrap();
        let (sender, fired) = mpsc::channel();
        for round in 0..3 {
            for shard in 0..shards {
                let sender = sender.clone();
                let tell = move || sender.send((shard, thread::current().id())).unwrap();
                schedule_on(&engine, shard, round * MS, tell);
            }
            let mut told: Vec<_> =
                (0..shards).map(|_| fired.recv_timeout(PATIENCE).unwrap()).collect();
            told.sort_unstable_by_key(|&(shard, _)| shard);
            assert!(told.iter().map(|&(shard, _)| shard).eq(0..shards));
            assert!(told.iter().all(|(_, id)| *id == told[0].1), "all on one thread");
        }
        assert_eq!(engine.stats().fired, 3 * shards as u64);
    }
}

#[test]
fn a_stuck_task_holds_no_other_shard_up() {
    let engine = builder(3).reapers(1, 1).takeover(MS).build().unwrap();
    for shard in [0, 1, 2, 0] {
        let (sender, receiver) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        schedule_on(&engine, shard, Duration::ZERO, move || {
            begin.send(()).unwrap();
            end.send(receiver.recv_timeout(PATIENCE).is_ok()).unwrap();
        });
        // Not before: a thread that is late itself might serve both shards in one go.
        begun.recv_timeout(PATIENCE).unwrap();
        let next = (shard + 1) % 3;
        schedule_on(&engine, next, 2 * MS, move || sender.send(()).unwrap());
        assert_eq!(ended.recv_timeout(PATIENCE), Ok(true));
    }
    assert!(engine.stats().takeovers >= 4);
    engine.stop().unwrap();
}

#[test]
fn without_spare_threads_each_shard_has_a_thread_of_its_own() {
    let engine = builder(2).takeover(MS).spares(0).build().unwrap();
    for shard in [0, 1] {
        let (sender, receiver) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        schedule_on(&engine, shard, Duration::ZERO, move || {
            end.send(receiver.recv_timeout(PATIENCE).is_ok()).unwrap();
        });
        schedule_on(&engine, 1 - shard, 2 * MS, move || sender.send(()).unwrap());
        assert_eq!(ended.recv_timeout(PATIENCE), Ok(true));
    }
    assert_eq!(engine.stats().takeovers, 0);
    engine.stop().unwrap();
}

#[test]
fn with_slow_tasks_on_all_shards_each_payload_is_handed_over_once() {
    let timers = scaled(4_000);
    let counts: Arc<[AtomicUsize]> = (0..timers).map(|_| AtomicUsize::new(0)).collect();
    let its = counts.clone();
    let each = move |n: u64| {
        its[n as usize].fetch_add(1, Ordering::Relaxed);
        match n % 97 {
            0 => thread::sleep(3 * MS),
            1..10 => thread::sleep(MS / 10),
            _ => {}
        }
    };
    let builder = builder(8).reapers(1, 3).takeover(MS).tick(MS / 5);
    let engine = builder.build_each(each).unwrap();
    thread::scope(|scope| {
        let producers = [0, 1].map(|producer| {
            let engine = &engine;
            scope.spawn(move || {
                let mut random = Random::new(producer);
                for n in (producer..timers).step_by(2) {
                    engine.bind_thread(random.below(8) as usize).unwrap();
                    engine.schedule_detached(MS / 10 * random.below(100) as u32, n).unwrap();
                }
            })
        });
        // ThreadSanitizer does not see that a scope waits for its threads.
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    });
    while engine.stats().fired < timers {
        thread::sleep(MS);
    }
    assert!(engine.stop().unwrap().is_empty());
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
}

#[test]
fn there_is_at_least_one_thread_and_at_most_one_per_shard() {
    for (min, max) in [(0, 0), (0, 1), (2, 1)] {
        let error = builder(2).reapers(min, max).build().unwrap_err();
        assert!(matches!(error, BuildError::Reapers { .. }), "{error}");
    }
    builder(2).reapers(5, 9).build().unwrap();
}
