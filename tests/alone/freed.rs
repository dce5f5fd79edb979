//! Freed: when an engine is gone and the threads that used it have ended, so is its memory.
//!
//! One test alone in its binary: every block that any thread allocates is counted.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::counting::{Counting, Live, free_what_waits_for_readers, live, made_here};
use support::leaks::is_no_more_than;
use tickless::{Engine, ManualClock};

#[global_allocator]
static COUNTING: Counting = Counting;

const HOUR: Duration = Duration::from_secs(3600);

const PATIENCE: Duration = Duration::from_secs(60);

/// Uses an engine in every way, from several threads, until its memory has passed through seats,
/// depots, sweeps and the epoch.
fn use_engine(engine: &Engine) -> Vec<tickless::Handle> {
    let users: Vec<_> = (0..3)
        .map(|user| {
            let engine = engine.clone();
            thread::spawn(move || {
                let (sender, receiver) = mpsc::channel();
                let mut handles = Vec::new();
                for n in 0..5000_u32 {
                    let big = [n; 20];
                    let task = move || drop(std::hint::black_box(big).to_vec());
                    let delay = [HOUR, HOUR * 30, HOUR * 900][n as usize % 3];
                    handles.push(engine.schedule(delay, task).unwrap());
                    if n % 100 == 0 {
                        let sender = sender.clone();
                        let task = move || sender.send(n).unwrap();
                        engine.schedule_detached(Duration::from_micros(1), task).unwrap();
                    }
                }
                assert!(handles.split_off(1000).into_iter().all(|handle| handle.cancel()));
                for handle in &mut handles[..500] {
                    assert!(handle.reset(HOUR / 2).is_ok());
                }
                if user == 0 {
                    let _ = engine.snapshot();
                }
                (handles, receiver)
            })
        })
        .collect();
    let users: Vec<_> = users.into_iter().map(|user| user.join().unwrap()).collect();
    // By hand where nobody else does; else the reapers see to it.
    let _ = engine.advance(Duration::from_millis(10));
    for (_, receiver) in &users {
        assert!((0..50).all(|_| receiver.recv_timeout(PATIENCE).is_ok()));
    }
    users.into_iter().flat_map(|(handles, _)| handles).collect()
}

/// Lives through the whole life of some engines, and answers what is left of them.
fn live_through(round: usize) -> Live {
    let user = move || {
        let clock = ManualClock::new();
        let builder = Engine::builder().slots(32 << (round % 3));
        let engines = [
            builder.shards(2).build().unwrap(),
            Engine::builder().shards(2).manual_clock(&clock).build().unwrap(),
        ];
        for engine in engines {
            let mut handles = use_engine(&engine);
            let outliving = handles.split_off(handles.len() / 2);
            drop(handles);
            match round % 2 {
                0 => drop(engine.stop().unwrap()),
                _ => drop(engine),
            }
            assert!(outliving.into_iter().all(|handle| !handle.cancel()));
        }
    };
    thread::spawn(user).join().unwrap();
    free_what_waits_for_readers();
    live()
}

#[test]
fn nothing_is_left_of_an_engine_when_it_and_the_threads_that_used_it_are_gone() {
    // The first round is for what the process makes once and keeps.
    let first = live_through(0);
    assert!(made_here() > 0 && first.blocks > 0, "the allocator that counts is in use");
    for round in 1..=6 {
        let left = live_through(round);
        // If each engine left one block, it would be twelve in the end.
        assert!(is_no_more_than(left, first), "round {round}: {left:?}, {first:?}");
    }
}
