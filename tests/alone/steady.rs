//! Steady: four threads schedule, cancel and reset, their timers fire, and none of them calls the
//! allocator, once as much memory is there as ever was needed at a time.
//!
//! A fifth thread runs the turns, by a clock that it moves as the others get ahead, and does not
//! call the allocator either. How far it gets meanwhile is left to the system: a verdict on counts
//! depends on no speed.
//!
//! And loads of one thread, in which thousands of timers fire at once, for longer than memory is
//! kept that nobody needs. (With AddressSanitizer, next to none is kept.)

#![cfg(not(asan))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use support::alone::alone;
use support::counting::{Counting, calls_here};
use support::random::Random;
use support::scaled;
use tickless::{Batch, Builder, Engine, Handle, ManualClock, When};

#[global_allocator]
static COUNTING: Counting = Counting;

const THREADS: usize = 4;

const SHARDS: usize = 2;

/// Steps of a thread before the count, and while it counts. Each has seven calls, more or less.
const WARM: u64 = 40_000;
const STEPS: u64 = 40_000;

/// Calls of the allocator that each thread may make in all its counted steps, or one in a thousand
/// of these, because more is in use at a time than ever before: of blocks of entries, and of
/// magazines.
const GROWTH: u64 = 32;

/// The same for the thread that runs the turns, or one in a hundred steps of all. It adds and
/// removes buckets and rounds with each turn, and more of them, and hands for rounds, may be there
/// at a time than before.
const GROWTH_OF_REAPER: u64 = 200;

/// Timers of a thread that have not fired.
const MOST: u64 = 256;

/// Steps of all threads in a millisecond, unless one waits for timers that are not due before.
/// (What nobody needs for ten seconds is given back.)
const PACE: u64 = 32;

const MS: Duration = Duration::from_millis(1);

/// What the threads share.
struct Load {
    engine: Engine,
    /// Timers that a thread leaves to another one, which cancels them.
    crossing: Vec<Mutex<Option<Handle>>>,
    /// Timers that have still to fire, of each thread.
    open: Vec<Arc<AtomicU64>>,
    /// Steps that were taken, and a millisecond's for each look of a thread that waits.
    pace: AtomicU64,
}

// === impl Load ===

impl Load {
    /// One step of the thread `number`: pairs, resets, timers that fire, and one that crosses.
    fn step(&self, number: usize, random: &mut Random, kept: &mut [Option<Handle>]) {
        let engine = &self.engine;
        // (The clock may pass them meanwhile.)
        let pair = |ms: u32| _ = engine.schedule(MS * ms, || ()).unwrap().cancel();
        pair(5_000);
        pair(1 + random.below(100) as u32);
        // One is moved later and earlier by turns, until it is replaced.
        let at = random.below(kept.len() as u64) as usize;
        let delay = MS * (1_000 + random.below(30_000) as u32);
        if kept[at].as_mut().is_none_or(|timer| timer.reset(delay).is_err()) {
            kept[at] = Some(engine.schedule(delay, || ()).unwrap());
        }
        // Timers that are due at once, and soon.
        self.fire(number, Duration::ZERO);
        self.fire(number, MS * random.below(40) as u32);
        let left = engine.schedule(MS * 30_000, || ()).unwrap();
        let at = random.below(self.crossing.len() as u64) as usize;
        let found = self.crossing[at].lock().unwrap().replace(left);
        found.into_iter().for_each(|timer| _ = timer.cancel());
        self.pace.fetch_add(1, Ordering::SeqCst);
    }

    /// Schedules a timer that fires. Waits until few of the thread's have not.
    fn fire(&self, number: usize, delay: Duration) {
        let open = &self.open[number];
        while open.load(Ordering::SeqCst) >= MOST {
            self.pace.fetch_add(PACE, Ordering::SeqCst);
            thread::yield_now();
        }
        open.fetch_add(1, Ordering::SeqCst);
        let open = Arc::clone(open);
        let task = move || _ = open.fetch_sub(1, Ordering::SeqCst);
        self.engine.schedule_detached(delay, task).unwrap();
    }
}

#[test]
fn threads_in_a_steady_load_do_not_call_the_allocator() {
    let _alone = alone();
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(SHARDS).manual_clock(&clock).build().unwrap();
    let load = Arc::new(Load {
        engine: engine.clone(),
        crossing: (0..64).map(|_| Mutex::new(None)).collect(),
        open: (0..THREADS).map(|_| Arc::default()).collect(),
        pace: AtomicU64::new(0),
    });
    let is_over = AtomicBool::new(false);
    let (all_warm, all_there) = (Barrier::new(THREADS + 1), Barrier::new(THREADS));
    let of_reaper = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let is_due = |pace: u64| pace.checked_sub(PACE);
                if load.pace.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_due).is_err() {
                    thread::yield_now();
                    continue;
                }
                clock.advance(MS);
                (0..SHARDS).for_each(|shard| _ = engine.turn(shard).unwrap());
                of_reaper.store(calls_here(), Ordering::SeqCst);
            }
        });
        let threads = [0, 1, 2, 3].map(|number| {
            let (load, all_warm, all_there) = (Arc::clone(&load), &all_warm, &all_there);
            scope.spawn(move || {
                load.engine.bind_thread(number % SHARDS).unwrap();
                let mut random = Random::new(number as u64);
                let mut kept: Vec<Option<Handle>> = (0..64).map(|_| None).collect();
                let mut steps = |n| (0..n).for_each(|_| load.step(number, &mut random, &mut kept));
                // Less than that is not all that is ever needed at a time.
                steps(scaled(WARM).max(6_000));
                all_warm.wait();
                let before = calls_here();
                steps(scaled(STEPS));
                let calls = calls_here() - before;
                all_there.wait();
                calls
            })
        });
        all_warm.wait();
        let before = of_reaper.load(Ordering::SeqCst);
        let calls = threads.map(|thread| thread.join().unwrap());
        let of_reaper = of_reaper.load(Ordering::SeqCst) - before;
        is_over.store(true, Ordering::SeqCst);
        let shown = format!("{calls:?} calls of the allocator in {} steps", scaled(STEPS));
        println!("{shown}, and {of_reaper} of the reaper");
        let growth = GROWTH.max(scaled(STEPS) / 1000);
        assert!(calls.iter().all(|&calls| calls <= growth), "{shown}");
        let growth = GROWTH_OF_REAPER.max(scaled(STEPS) * THREADS as u64 / 100);
        assert!(of_reaper <= growth, "{of_reaper} of the reaper");
    });
    drop(load);
    engine.stop().unwrap();
}

/// A load of one thread: each step, `each` timers are scheduled for `when`, and time passes.
struct Crowds {
    tick: Duration,
    step: Duration,
    each: u64,
    when: When,
    /// Timers that wait throughout.
    far: u64,
    /// Calls of the allocator that are for buckets: a level has eight at a time, from when time
    /// first comes there.
    buckets: u64,
}

impl Crowds {
    /// Calls of the allocator by schedules in eleven seconds, which is longer than memory is kept
    /// that nobody needs, after as long a time.
    fn calls_of_schedules(&self) -> u64 {
        // What another engine leaves to the epoch may be freed by this thread, and the other way
        // round.
        let _alone = alone();
        let Crowds { tick, step, each, when, far, .. } = *self;
        let clock = ManualClock::new();
        let builder = Builder::new().tick(tick).shards(1).manual_clock(&clock);
        let drop_all = |batch: Batch<'_, u64>| batch.for_each(drop);
        let engine = builder.build_with_handler(drop_all).unwrap();
        (0..far).for_each(|n| engine.schedule_detached(Duration::from_secs(100_000), n).unwrap());
        let run = |steps: u32| {
            let mut calls = 0;
            for _ in 0..steps {
                let before = calls_here();
                (0..each).for_each(|n| engine.schedule_detached(when, n).unwrap());
                calls += calls_here() - before;
                engine.advance(step).unwrap();
            }
            calls
        };
        let steps = (Duration::from_secs(11).as_nanos() / step.as_nanos()) as u32;
        run(steps);
        run(steps)
    }

    fn assert_steady(&self) {
        let calls = self.calls_of_schedules();
        assert!(calls <= self.buckets, "{calls} calls with ticks of {:?}", self.tick);
    }
}

#[test]
fn timers_that_fire_by_thousands_beside_many_far_ones_take_no_new_memory() {
    let (step, when) = (MS * 100, When::after(MS * 100));
    let load = Crowds { tick: MS, step, each: 2_500, when, far: 50_000, buckets: 0 };
    load.assert_steady();
}

#[test]
fn timers_that_share_a_second_of_slack_take_no_new_memory() {
    let when = When::after(MS * 5_000).slack(MS * 1_000);
    // A bucket of the second level has half a second.
    let load = Crowds { tick: MS, step: MS * 50, each: 500, when, far: 0, buckets: 3 };
    load.assert_steady();
}

#[test]
fn timers_that_share_wide_ticks_take_no_new_memory() {
    for (tick, step, each) in [(MS * 100, MS * 10, 250), (MS * 10, MS * 20, 500)] {
        let when = When::after(MS * 200);
        Crowds { tick, step, each, when, far: 0, buckets: 0 }.assert_steady();
    }
}
