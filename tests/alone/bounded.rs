//! Bounded: dead entries are no more than the living, or than 4096, and what caches hold, at any
//! time and whatever the reapers are doing: while something is always due, while tasks are slow,
//! and while one blocks.
//!
//! Entries are counted while nobody cancels: a count over threads that go on counting is none.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use support::alone::alone;
use support::counting::{Counting, live, made_here};
use support::random::Random;
use support::scaled;
use tickless::{Builder, Engine, Handle, ManualClock};

#[global_allocator]
static COUNTING: Counting = Counting;

const PATIENCE: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

/// Threads that cancel.
const CANCELLERS: usize = 2;

/// Timers that each of them schedules and cancels at a time.
const BURST: u64 = 2000;

const BURSTS: u64 = 8;

/// What is let be however few live.
const FEW: u64 = 4096;

/// Seats in a thread's cache and on their way out of it; seats in the depot, for each shard.
const OF_THREAD: u64 = 32 + 32;
const OF_SHARD: u64 = 64 * 32;

/// Free memory that a thread keeps, and the depot for each shard.
const FREE_OF_THREAD: u64 = 2 * 64;
const FREE_OF_SHARD: u64 = 32 * 64;

/// How timers come to an end before their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The thread that scheduled a timer cancels it.
    Own,
    /// Another thread does.
    Crossed,
    /// It is moved to earlier times first, which leaves an entry behind each time.
    Earlier,
}

const WAYS: [Way; 3] = [Way::Own, Way::Crossed, Way::Earlier];

/// Threads that cancel when they are told to.
struct Cancellers {
    commands: Vec<Sender<()>>,
    done: Receiver<()>,
    threads: Vec<JoinHandle<()>>,
}

/// Tasks that keep the reaper of a shard until they are let go, one after the other.
struct Busy {
    begun: Receiver<()>,
    go_on: Sender<bool>,
}

// === impl Cancellers ===

impl Cancellers {
    fn new(engine: &Engine, way: Way) -> Cancellers {
        let (is_done, done) = channel();
        let (to, from): (Vec<_>, Vec<_>) = (0..CANCELLERS).map(|_| channel()).unzip();
        let all_there = Arc::new(Barrier::new(CANCELLERS));
        let mut commands = Vec::new();
        let mut threads = Vec::new();
        for (number, from) in from.into_iter().enumerate() {
            let (command, told) = channel();
            let (engine, is_done) = (engine.clone(), is_done.clone());
            let (next, all_there) = (to[(number + 1) % CANCELLERS].clone(), all_there.clone());
            commands.push(command);
            threads.push(thread::spawn(move || {
                for () in told {
                    let timers = schedule(&engine, way);
                    // All are there at once: no thread uses the seats that the other just left.
                    all_there.wait();
                    cancel(timers, way, &next, &from);
                    is_done.send(()).unwrap();
                }
            }));
        }
        Cancellers { commands, done, threads }
    }

    /// Lets each thread schedule and cancel a burst of timers, to the end.
    fn burst(&self) {
        self.commands.iter().for_each(|command| command.send(()).unwrap());
        self.commands.iter().for_each(|_| self.done.recv_timeout(PATIENCE).unwrap());
    }

    fn end(self) {
        drop(self.commands);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn schedule(engine: &Engine, way: Way) -> Vec<Handle> {
    // Of different lengths, so that many buckets have some.
    let schedule = |n: u64| engine.schedule(64 * HOUR + MS * (n as u32 * 37), || ()).unwrap();
    let mut timers: Vec<Handle> = (0..BURST).map(schedule).collect();
    if way == Way::Earlier {
        for hours in [16, 4, 1] {
            timers.iter_mut().for_each(|timer| assert!(timer.reset(hours * HOUR).is_ok()));
        }
    }
    timers
}

fn cancel(
    mut timers: Vec<Handle>,
    way: Way,
    next: &Sender<Vec<Handle>>,
    from: &Receiver<Vec<Handle>>,
) {
    if way == Way::Crossed {
        next.send(timers).unwrap();
        timers = from.recv_timeout(PATIENCE).unwrap();
    }
    assert!(timers.into_iter().all(Handle::cancel));
}

// === impl Busy ===

impl Busy {
    /// A task begins on shard 0.
    fn new(engine: &Engine) -> Busy {
        let ((begins, begun), (go_on, told)) = (channel(), channel());
        engine.bind_thread(0).unwrap();
        keep_busy(engine, begins, told);
        let busy = Busy { begun, go_on };
        busy.has_begun();
        busy
    }

    fn has_begun(&self) {
        self.begun.recv_timeout(PATIENCE).unwrap();
    }

    /// The task ends, and the next begins.
    fn next(&self) {
        self.go_on.send(true).unwrap();
        self.has_begun();
    }

    fn end(self) {
        self.go_on.send(false).unwrap();
    }
}

/// Schedules a task for at once, which lasts until it is told to go on, and then does the same.
fn keep_busy(engine: &Engine, begins: Sender<()>, told: Receiver<bool>) {
    let inner = engine.clone();
    let task = move || {
        begins.send(()).unwrap();
        // It ends with the test as well, which drops the other side.
        if told.recv() == Ok(true) {
            keep_busy(&inner, begins, told);
        }
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
}

/// Asserts that few entries are dead, at the latest when a turn that has begun is over. Nobody
/// cancels meanwhile.
#[track_caller]
fn assert_few_dead(engine: &Engine, when: &str) {
    let threads = CANCELLERS as u64 + 2;
    let caches = threads * OF_THREAD + engine.shards() as u64 * OF_SHARD;
    let begun = Instant::now();
    loop {
        let stats = engine.stats();
        let most = stats.pending.max(FEW) + caches;
        if stats.dead <= most {
            return;
        }
        let is_over = begun.elapsed() > PATIENCE;
        assert!(!is_over, "{when}: {} dead, of at most {most}\n{stats}", stats.dead);
        thread::yield_now();
    }
}

/// Asserts that the engine's entries take no more memory than the dead, as many living and all
/// caches may; and as much again for what waits until nobody reads it.
#[track_caller]
fn assert_little_memory(engine: &Engine, entries_before: i64, living: u64) {
    let threads = CANCELLERS as u64 + 2;
    let shards = engine.shards() as u64;
    let dead = living.max(FEW) + threads * OF_THREAD + shards * OF_SHARD;
    let free = threads * FREE_OF_THREAD + shards * FREE_OF_SHARD;
    let most = 2 * (living + dead + free);
    let entries = live().entries - entries_before;
    assert!(entries <= most as i64, "{entries} entries allocated, of at most {most}");
}

fn build(builder: Builder) -> Engine {
    assert!(made_here() > 0, "the allocator that counts is in use");
    builder.build().unwrap()
}

/// Lets threads cancel in each way, before each `turn` of what keeps the reaper busy.
fn cancel_in_every_way(
    builder: impl Fn() -> Builder,
    begin: impl Fn(&Engine) -> Box<dyn FnMut(bool)>,
) {
    let _alone = alone();
    for way in WAYS {
        let entries_before = live().entries;
        let engine = build(builder());
        let mut turn = begin(&engine);
        let cancellers = Cancellers::new(&engine, way);
        for round in 0..scaled(BURSTS) {
            cancellers.burst();
            assert_few_dead(&engine, &format!("{way:?}, after burst {round}"));
            assert_little_memory(&engine, entries_before, CANCELLERS as u64 * BURST);
            turn(false);
            assert_few_dead(&engine, &format!("{way:?}, after turn {round}"));
        }
        turn(true);
        cancellers.end();
        engine.stop().unwrap();
        let stats = engine.stats();
        assert_eq!(stats.cancelled, scaled(BURSTS) * BURST * CANCELLERS as u64);
    }
}

// === who is busy ===

#[test]
fn few_are_dead_while_each_turn_ends_with_something_due() {
    let builder = || Engine::builder().shards(1).manual_clock(&ManualClock::new());
    cancel_in_every_way(builder, |engine| {
        fn again(engine: &Engine, is_over: &Arc<AtomicBool>) {
            let (inner, over) = (engine.clone(), is_over.clone());
            let task = move || {
                if !over.load(Ordering::SeqCst) {
                    again(&inner, &over);
                }
            };
            engine.schedule_detached(Duration::ZERO, task).unwrap();
        }
        let (engine, is_over) = (engine.clone(), Arc::new(AtomicBool::new(false)));
        again(&engine, &is_over);
        Box::new(move |ends| {
            is_over.store(ends, Ordering::SeqCst);
            let turn = engine.turn(0).unwrap();
            assert!(turn.fired == 1 && (turn.more || ends), "{turn:?}");
        })
    });
}

#[test]
fn few_are_dead_while_each_task_lasts_as_long_as_a_burst_of_cancels() {
    for shards in [1, 2] {
        cancel_in_every_way(
            || Engine::builder().shards(shards),
            |engine| {
                let mut busy = Some(Busy::new(engine));
                Box::new(move |ends| match ends {
                    true => busy.take().unwrap().end(),
                    false => busy.as_ref().unwrap().next(),
                })
            },
        );
    }
}

#[test]
fn few_are_dead_while_one_task_blocks_the_reaper_throughout() {
    for shards in [1, 2] {
        cancel_in_every_way(
            || Engine::builder().shards(shards),
            |engine| {
                let mut busy = Some(Busy::new(engine));
                Box::new(move |ends| {
                    if ends {
                        busy.take().unwrap().end();
                    }
                })
            },
        );
    }
}

#[test]
fn few_are_dead_while_tasks_reschedule_themselves_all_the_time() {
    /// Runs, and again after up to 2 ms, and up to as long.
    fn again(engine: &Engine, runs: &Arc<AtomicU64>, mut random: Random) {
        let (inner, count) = (engine.clone(), runs.clone());
        let delay = Duration::from_nanos(random.below(4) * random.below(500_000));
        let task = move || {
            for _ in 0..random.below(1000) {
                std::hint::spin_loop();
            }
            count.fetch_add(1, Ordering::SeqCst);
            again(&inner, &count, random);
        };
        // A stop ends it.
        let _ = engine.schedule_detached(delay, task);
    }
    let builder = || Engine::builder().shards(2).tick(Duration::from_micros(10));
    cancel_in_every_way(builder, |engine| {
        let runs = Arc::new(AtomicU64::new(0));
        for shard in 0..8 {
            engine.bind_thread(shard % 2).unwrap();
            again(engine, &runs, Random::new(shard as u64));
        }
        Box::new(move |_| {
            let (before, begin) = (runs.load(Ordering::SeqCst), Instant::now());
            while runs.load(Ordering::SeqCst) < before + 4 {
                assert!(begin.elapsed() < PATIENCE, "the reapers are at work");
                thread::yield_now();
            }
        })
    });
}

#[test]
fn as_many_may_be_dead_as_live_and_no_more_while_the_reaper_blocks() {
    const LIVING: u64 = 12_000;
    let _alone = alone();
    let entries_before = live().entries;
    let engine = build(Engine::builder().shards(1).takeover(None));
    let busy = Busy::new(&engine);
    let far = |n: u64| engine.schedule(30 * HOUR + MS * (n as u32 * 11), || ()).unwrap();
    let living: Vec<Handle> = (0..LIVING).map(far).collect();
    let cancellers = Cancellers::new(&engine, Way::Crossed);
    for round in 0..scaled(2 * BURSTS) {
        cancellers.burst();
        assert_eq!(engine.len() as u64, LIVING);
        assert_few_dead(&engine, &format!("burst {round}"));
    }
    assert_little_memory(&engine, entries_before, LIVING + CANCELLERS as u64 * BURST);
    // Those that allowed for so many go themselves.
    assert!(living.into_iter().all(Handle::cancel));
    assert_few_dead(&engine, "after the living");
    busy.end();
    cancellers.end();
    assert_eq!(engine.stop().unwrap().len(), 0);
}

/// The threads alone sweep: no turn is run. `proofs/arithmetic` has the bound.
#[test]
fn the_dead_are_few_again_two_rounds_after_the_living_fell() {
    const SHARDS: u64 = 8;
    const OF_EACH: u64 = 5_000;
    let _alone = alone();
    let engine = build(Engine::builder().shards(SHARDS as usize).manual_clock(&ManualClock::new()));
    let on_each = |timers: u64| -> Vec<Handle> {
        let on = |shard: u64| {
            engine.bind_thread(shard as usize).unwrap();
            let far = |n| engine.schedule(30 * HOUR + MS * (n as u32 * 11), || ()).unwrap();
            (0..timers).map(far).collect::<Vec<_>>()
        };
        (0..SHARDS).flat_map(on).collect()
    };
    // Shards, the thread, visits at the end of a sweep; and the first entries of two buckets.
    let spare = 1024 * (SHARDS + 1) + OF_THREAD + 768 * SHARDS;
    let bound = |living: u64| living.max(FEW) + spare / 5 + 2 * 24 * SHARDS;
    let most = SHARDS * OF_EACH;
    let mut living = on_each(OF_EACH);
    let mut cancelled = 0;
    while let Some(timer) = living.pop() {
        assert!(timer.cancel());
        cancelled += 1;
        if cancelled % 256 == 0 {
            let dead = engine.stats().dead;
            assert!(dead <= bound(most), "{dead} dead after {cancelled} were cancelled");
        }
    }
    // What was filed was at most thrice as much, and each seat let go pays for twelve visits.
    let mut let_go = 0;
    while let_go < 2 * (3 * most + 1024 * (SHARDS + 1)) / 12 {
        on_each(100).into_iter().for_each(|timer| assert!(timer.cancel()));
        let_go += 800;
    }
    let dead = engine.stats().dead;
    assert!(dead <= bound(0), "{dead} dead, of at most {}", bound(0));
    assert_eq!(engine.stop().unwrap().len(), 0);
}
