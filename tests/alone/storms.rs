//! Storms: threads that allocate entries by the thousand and give them up on other threads, until
//! stocks and depots overflow. Each payload meets one fate, and all memory comes back.
//!
//! One test alone in its binary: every block that any thread allocates is counted.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::counting::{Counting, Live, free_what_waits_for_readers, live, made_here};
use support::leaks::is_no_more_than;
use support::scaled;
use support::token::{Fates, Token};
use tickless::{Batch, Builder, Engine, Handle, ResetError};

#[global_allocator]
static COUNTING: Counting = Counting;

const HOUR: Duration = Duration::from_secs(3600);

const PATIENCE: Duration = Duration::from_secs(60);

const THREADS: usize = 4;

/// More than the free list of a thread and the depots of two shards hold, in a burst.
const BURST: usize = 4000;

type Timers = Vec<(usize, Handle<Token>)>;

fn run_all(batch: Batch<'_, Token>) {
    batch.for_each(|token| token.run());
}

/// What one thread does: in each round a burst of timers, which the next thread ends. Answers
/// which it cancelled, of those of the thread before, and whether in time.
fn storm(
    engine: &Engine<Token>,
    fates: &Fates,
    numbers: std::ops::Range<usize>,
    next: &mpsc::Sender<Timers>,
    before: &mpsc::Receiver<Timers>,
) -> Vec<(usize, bool)> {
    let mut outcomes = Vec::new();
    for start in numbers.step_by(BURST) {
        let schedule = |number: usize| {
            // By turns: far away, on many levels; and so soon that they race with what ends them.
            let delay = match number % 3 {
                0 => Duration::from_micros(number as u64 % 2000),
                _ => HOUR * (1 + number as u32 % 1000),
            };
            (number, engine.schedule(delay, fates.token(number)).unwrap())
        };
        next.send((start..start + BURST).map(schedule).collect()).unwrap();
        for (number, mut handle) in before.recv_timeout(PATIENCE).unwrap() {
            match number % 4 {
                // Fires at once, from wherever it was, in an entry of its own.
                0 => assert_ne!(handle.reset(Duration::ZERO), Err(ResetError::Stopped)),
                _ => outcomes.push((number, handle.cancel())),
            }
        }
    }
    outcomes
}

/// Lives through a storm, and answers what is left of it.
fn live_through(rounds: usize) -> Live {
    let user = move || {
        let engine = Builder::new().shards(2).build_with_handler(run_all).unwrap();
        let each = rounds * BURST;
        let fates = Fates::new(THREADS * each);
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel()).unzip();
        let threads: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(thread, before)| {
                let (engine, fates) = (engine.clone(), fates.clone());
                let next = senders[(thread + 1) % THREADS].clone();
                let numbers = thread * each..(thread + 1) * each;
                thread::spawn(move || storm(&engine, &fates, numbers, &next, &before))
            })
            .collect();
        let outcomes: Vec<_> = threads.into_iter().flat_map(|it| it.join().unwrap()).collect();
        let returned = engine.stop().unwrap().len();
        let mut cancelled = vec![false; THREADS * each];
        outcomes.into_iter().for_each(|(number, won)| cancelled[number] = won);
        let mut without_fate = 0;
        for (number, &cancelled) in cancelled.iter().enumerate() {
            let (ran, dropped) = fates.of(number);
            assert!(dropped == 1 && ran + u32::from(cancelled) <= 1, "token {number}");
            without_fate += usize::from(ran == 0 && !cancelled);
        }
        assert_eq!(without_fate, returned, "nothing is lost");
        let won = cancelled.iter().filter(|&&cancelled| cancelled).count() as u64;
        let stats = engine.stats();
        assert_eq!((stats.cancelled, stats.pending), (won, 0));
        assert_eq!(stats.scheduled, won + stats.fired + returned as u64);
    };
    thread::spawn(user).join().unwrap();
    free_what_waits_for_readers();
    live()
}

#[test]
fn all_memory_of_an_allocation_storm_comes_back() {
    // The first is for what the process makes once and keeps.
    let first = live_through(1);
    assert!(made_here() > 0 && first.blocks > 0, "the allocator that counts is in use");
    for _ in 0..2 {
        let left = live_through(scaled(6) as usize);
        assert!(is_no_more_than(left, first), "{left:?}, {first:?}");
    }
}
