//! Bounded: dead entries are soon no more than the living, or than 4096, and what caches hold, as
//! long as their shard has turns: while something is always due, while tasks are slow, and while
//! one blocks, beside which a spare thread serves. If no thread is left, they are freed in the
//! first turns that come.
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
const FREE_OF_SHARD: u64 = 512 * 64;

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
    /// A task begins on this shard, to which this thread is bound from now on.
    fn on(engine: &Engine, shard: usize) -> Busy {
        let ((begins, begun), (go_on, told)) = (channel(), channel());
        engine.bind_thread(shard).unwrap();
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
            turn(false);
            assert_few_dead(&engine, &format!("{way:?}, after turn {round}"));
            assert_little_memory(&engine, entries_before, CANCELLERS as u64 * BURST);
        }
        turn(true);
        cancellers.end();
        engine.stop().unwrap();
        let stats = engine.stats();
        assert_eq!(stats.cancelled, scaled(BURSTS) * BURST * CANCELLERS as u64);
    }
}

// === who is busy ===

/// Tasks of which one is due whenever a turn begins, and when it ends: each schedules itself again.
struct Restless {
    engine: Engine,
    is_over: Arc<AtomicBool>,
}

impl Restless {
    fn new(engine: &Engine, tasks: usize) -> Restless {
        let restless = Restless { engine: engine.clone(), is_over: Arc::default() };
        (0..tasks).for_each(|_| again(engine, &restless.is_over));
        restless
    }

    /// Runs a turn. Each task fires.
    fn turn(&self, tasks: usize) {
        let turn = self.engine.turn(0).unwrap();
        let is_over = self.is_over.load(Ordering::SeqCst);
        assert!(turn.fired == tasks && (turn.more || is_over), "{turn:?}");
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

fn again(engine: &Engine, is_over: &Arc<AtomicBool>) {
    let (inner, over) = (engine.clone(), is_over.clone());
    let task = move || {
        if !over.load(Ordering::SeqCst) {
            again(&inner, &over);
        }
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
}

fn by_hand() -> Builder {
    Engine::builder().shards(1).manual_clock(&ManualClock::new())
}

#[test]
fn few_are_dead_after_some_turns_that_each_end_with_something_due() {
    /// The dead are swept in parts of 1024, and those that come first in their lists once more.
    const TURNS: usize = 32;
    cancel_in_every_way(by_hand, |engine| {
        let restless = Restless::new(engine, 1);
        Box::new(move |ends| {
            if ends {
                restless.end();
            }
            let turns = if ends { 1 } else { TURNS };
            (0..turns).for_each(|_| restless.turn(1));
        })
    });
}

/// In each of the reaper's turns, four times as many timers are cancelled as the least that it
/// sweeps.
#[test]
fn the_dead_are_bounded_beside_a_reaper_that_never_rests() {
    /// As many as a batch has.
    const TASKS: usize = 256;
    const CANCELLED: u64 = 8192;
    /// `memory/balance.rs` has the sum. Nothing lives but the tasks.
    const MOST: u64 = 16 * CANCELLED + FEW;
    let _alone = alone();
    let entries_before = live().entries;
    let engine = build(by_hand());
    let restless = Restless::new(&engine, TASKS);
    let far = |n: u64| engine.schedule(64 * HOUR + MS * (n as u32 * 37), || ()).unwrap();
    for _ in 0..scaled(100) {
        let timers: Vec<Handle> = (0..CANCELLED).map(far).collect();
        assert!(timers.into_iter().all(Handle::cancel));
        restless.turn(TASKS);
        let stats = engine.stats();
        assert!(stats.dead <= MOST + OF_SHARD, "{stats}");
        let entries = live().entries - entries_before;
        let most = MOST + CANCELLED + 2 * (OF_SHARD + FREE_OF_SHARD + OF_THREAD);
        assert!(entries <= 2 * most as i64, "{entries} entries allocated, of at most {most}");
    }
    restless.end();
    restless.turn(TASKS);
    while engine.turn(0).unwrap().more {}
    assert_few_dead(&engine, "in the end");
    assert_eq!(engine.stop().unwrap().len(), 0);
}

#[test]
fn few_are_dead_while_each_task_lasts_as_long_as_a_burst_of_cancels() {
    for shards in [1, 2] {
        cancel_in_every_way(
            || Engine::builder().shards(shards),
            |engine| {
                let mut busy = Some(Busy::on(engine, 0));
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
                let mut busy = Some(Busy::on(engine, 0));
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

/// Timers that are cancelled while nobody serves their shard.
fn cancel_a_million(engine: &Engine) {
    let many = scaled(1_000_000).max(250_000);
    let far = |n: u64| engine.schedule(30 * HOUR + MS * (n as u32 % 100_000), || ()).unwrap();
    let timers: Vec<Handle> = (0..many).map(far).collect();
    assert!(timers.into_iter().all(Handle::cancel));
    assert!(engine.stats().dead > many / 2, "nobody sweeps");
}

/// Waits until the memory of what was cancelled is free. Nobody cancels meanwhile.
#[track_caller]
fn await_little_memory(engine: &Engine, entries_before: i64) {
    let most = 2 * (FEW + 3 * (OF_THREAD + FREE_OF_THREAD) + 2 * (OF_SHARD + FREE_OF_SHARD));
    let begun = Instant::now();
    loop {
        let entries = live().entries - entries_before;
        if entries <= most as i64 {
            return;
        }
        let is_over = begun.elapsed() > PATIENCE;
        assert!(!is_over, "{entries} entries allocated, of at most {most}\n{}", engine.stats());
        thread::yield_now();
    }
}

#[test]
fn a_million_that_are_cancelled_while_every_thread_is_inside_a_task_are_freed_afterwards() {
    for shards in [1, 2] {
        let _alone = alone();
        let entries_before = live().entries;
        let engine = build(Engine::builder().shards(shards).takeover(None));
        let busy: Vec<Busy> = (0..shards).map(|shard| Busy::on(&engine, shard)).collect();
        cancel_a_million(&engine);
        busy.into_iter().for_each(Busy::end);
        assert_few_dead(&engine, "after the tasks");
        await_little_memory(&engine, entries_before);
        assert_eq!(engine.stop().unwrap().len(), 0);
    }
}

/// The caller's first turns, before there is nothing left to do.
#[test]
fn a_million_that_are_cancelled_inside_a_callers_task_are_freed_in_its_next_turns() {
    let _alone = alone();
    let entries_before = live().entries;
    let engine = build(by_hand());
    let inner = engine.clone();
    engine.schedule_detached(Duration::ZERO, move || cancel_a_million(&inner)).unwrap();
    assert_eq!(engine.turn(0).unwrap().fired, 1);
    while engine.turn(0).unwrap().more {}
    assert_few_dead(&engine, "after the turns");
    await_little_memory(&engine, entries_before);
    assert_eq!(engine.stop().unwrap().len(), 0);
}
