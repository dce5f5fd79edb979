//! What repeats, from many threads at once: each ends once, no run begins after its cancel, and no
//! two runs of one touch.

use std::cell::UnsafeCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use support::compiled;
use support::random::Random;
use support::threads::on_threads;
use support::{scaled, spread};
use tickless::periodic::{End, Periodic, Run, Schedule};
// One that ThreadSanitizer can follow.
use tickless::{Engine, ManualClock};
use tickless_sync::Mutex;

const US: Duration = Duration::from_micros(1);

fn engine() -> Engine {
    Engine::builder().tick(US * 20).shards(2).build().unwrap()
}

/// What runs of one periodic did.
#[derive(Default)]
struct Seen {
    runs: AtomicU64,
    is_inside: AtomicBool,
    /// Touched by each run: under ThreadSanitizer, runs that nothing orders are a race.
    touched: UnsafeCell<u64>,
    drops: AtomicU32,
    cancelled: AtomicU32,
}

// SAFETY: what is touched is touched inside runs alone, which never overlap: the very promise that
// this is to notice a breach of.
unsafe impl Sync for Seen {}

/// Dropped with the task.
struct Probe(Arc<Seen>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.drops.fetch_add(1, Ordering::SeqCst);
    }
}

impl Probe {
    fn run(&self) {
        let seen = &*self.0;
        assert!(!seen.is_inside.swap(true, Ordering::Relaxed), "two runs at a time");
        assert_eq!(seen.drops.load(Ordering::Relaxed), 0, "a run after the drop");
        // SAFETY: see `Seen`.
        unsafe { *seen.touched.get() += 1 };
        seen.runs.fetch_add(1, Ordering::Relaxed);
        seen.is_inside.store(false, Ordering::Relaxed);
    }
}

impl Seen {
    /// Cancels; no run begins from here on.
    fn cancel(&self, periodic: &Periodic) {
        let cancelled = periodic.cancel();
        let runs = periodic.runs();
        assert!(!periodic.is_running());
        self.cancelled.fetch_add(u32::from(cancelled), Ordering::SeqCst);
        thread::yield_now();
        assert_eq!(periodic.runs(), runs);
    }

    /// Now that all is over and the engine has stopped.
    fn settle(&self, periodic: &Periodic) {
        let end = periodic.end().expect("it is over");
        assert_eq!(self.cancelled.load(Ordering::SeqCst), u32::from(end == End::Cancelled));
        assert_eq!(self.runs.load(Ordering::SeqCst), periodic.runs());
        assert_eq!(self.drops.load(Ordering::SeqCst), 1);
        // SAFETY: nothing runs any more.
        assert_eq!(unsafe { *self.touched.get() }, periodic.runs());
    }
}

/// Starts one that is seen, and cancels itself in the run of that number, if any.
fn start(engine: &Engine, schedule: Schedule, cancels_in: u64) -> (Arc<Seen>, Periodic) {
    let seen = Arc::new(Seen::default());
    let probe = Probe(seen.clone());
    let task = compiled::task(move |run: &Run| {
        probe.run();
        if run.number() == cancels_in {
            probe.0.cancelled.fetch_add(u32::from(run.cancel()), Ordering::SeqCst);
        }
    });
    let periodic = schedule.start(engine, task).expect("the engine runs and has room");
    (seen, periodic)
}

/// Of any kind.
fn any_schedule(random: &mut Random) -> Schedule {
    let period = US * (1 + random.below(200) as u32);
    let schedule = match random.below(4) {
        0 => Schedule::fixed_rate(period),
        1 => Schedule::fixed_rate(period).catching_up(),
        2 => Schedule::fixed_delay(period),
        _ => Schedule::from_fn(move |last| Some(last + period)),
    };
    if random.below(2) == 0 { schedule.starting(Duration::ZERO) } else { schedule }
}

#[test]
fn of_all_who_cancel_one_is_told_yes_and_no_run_begins_afterwards() {
    const EACH: u64 = 60;
    for round in 0..scaled(12) {
        let engine = engine();
        let random = &mut Random::new(round);
        let mut any = |_| {
            let cancels_in = random.below(40);
            start(&engine, any_schedule(random), cancels_in)
        };
        let all: Vec<_> = (0..EACH).map(&mut any).collect();
        let seeds = AtomicU64::new(round * 100);
        on_threads::<3>(|| {
            let random = &mut Random::new(seeds.fetch_add(1, Ordering::SeqCst));
            for _ in 0..EACH * 2 {
                let (seen, periodic) = &all[random.below(EACH) as usize];
                if random.below(3) == 0 {
                    seen.cancel(periodic);
                }
                for _ in 0..random.below(40) {
                    thread::yield_now();
                }
            }
            all.iter().for_each(|(seen, periodic)| seen.cancel(periodic));
        });
        // What a reaper has in its hands, or is arming, is seen to before the stop returns.
        drop(engine.stop().unwrap());
        assert_eq!((engine.len(), engine.stats().panicked), (0, 0));
        all.iter().for_each(|(seen, periodic)| seen.settle(periodic));
    }
}

#[test]
fn a_stop_that_races_with_starts_runs_and_cancels_ends_each_once() {
    let rounds = scaled(30);
    for round in 0..rounds {
        let engine = engine();
        let all = Mutex::new(Vec::new());
        let seeds = AtomicUsize::new(0);
        on_threads::<3>(|| {
            let seed = seeds.fetch_add(1, Ordering::SeqCst) as u64;
            let random = &mut Random::new(round * 3 + seed);
            if seed == 0 {
                while engine.stats().fired < spread(round, rounds, 600)
                    && all.lock().unwrap().len() < 250
                {
                    thread::yield_now();
                }
                drop(engine.stop().unwrap());
                return;
            }
            for _ in 0..150 {
                let seen = Arc::new(Seen::default());
                let probe = Probe(seen.clone());
                match any_schedule(random).start(&engine, compiled::task(move |_| probe.run())) {
                    Ok(periodic) => {
                        if random.below(4) == 0 {
                            seen.cancel(&periodic);
                        }
                        all.lock().unwrap().push((seen, periodic));
                    }
                    Err(error) => {
                        drop(error);
                        assert_eq!(seen.drops.load(Ordering::SeqCst), 1);
                    }
                }
            }
        });
        for (seen, periodic) in all.lock().unwrap().iter() {
            seen.settle(periodic);
        }
    }
}

#[test]
fn a_task_that_is_due_at_once_never_runs_inside_its_start() {
    let engine = engine();
    let starters = Mutex::new(HashSet::new());
    let runners = Arc::new(Mutex::new(HashSet::new()));
    let all = Mutex::new(Vec::new());
    on_threads::<3>(|| {
        starters.lock().unwrap().insert(thread::current().id());
        for _ in 0..scaled(1000) {
            let runners = runners.clone();
            let task = compiled::task(move |run: &Run| {
                runners.lock().unwrap().insert(thread::current().id());
                run.cancel();
            });
            let schedule = Schedule::fixed_rate(US).starting(Duration::ZERO);
            let periodic = schedule.start(&engine, task).unwrap();
            all.lock().unwrap().push(periodic);
        }
    });
    let all = all.into_inner().unwrap();
    while all.iter().any(Periodic::is_running) {
        thread::yield_now();
    }
    assert!(all.iter().all(|periodic| periodic.runs() == 1));
    assert!(engine.stop().unwrap().is_empty());
    assert!(runners.lock().unwrap().is_disjoint(&starters.lock().unwrap()));
}

#[test]
fn turns_of_several_threads_run_each_periodic_one_run_at_a_time() {
    const SHARDS: usize = 3;
    let clock = ManualClock::new();
    let engine = Engine::builder().tick(US).shards(SHARDS).manual_clock(&clock).build().unwrap();
    let random = &mut Random::new(1);
    // What runs on a shard's thread is armed again on whichever shard that thread files on.
    let all: Vec<_> = (0..50).map(|_| start(&engine, any_schedule(random), 0)).collect();
    let turned = AtomicUsize::new(0);
    on_threads::<SHARDS>(|| {
        let shard = turned.fetch_add(1, Ordering::SeqCst);
        // At least a period, also if one thread does this after the other.
        for _ in 0..scaled(3000).max(50) {
            clock.advance(US * 5);
            engine.turn(shard).unwrap();
        }
    });
    assert_eq!((engine.len(), engine.stats().panicked), (all.len(), 0));
    for (seen, periodic) in &all {
        assert!(periodic.runs() > 0);
        seen.cancel(periodic);
        seen.settle(periodic);
    }
    assert!(engine.is_empty());
}

#[test]
fn what_a_stop_ends_is_cancelled_by_others_meanwhile() {
    for _ in 0..scaled(20) {
        let engine = Engine::builder().manual_clock(&ManualClock::new()).build().unwrap();
        let all: Vec<_> = (0..200).map(|_| start(&engine, Schedule::fixed_rate(US), 0)).collect();
        let role = AtomicUsize::new(0);
        on_threads::<3>(|| {
            if role.fetch_add(1, Ordering::SeqCst) == 0 {
                all.iter().for_each(|(seen, periodic)| seen.cancel(periodic));
                return;
            }
            assert!(engine.stop().unwrap().is_empty());
        });
        all.iter().for_each(|(seen, periodic)| seen.settle(periodic));
    }
}

#[test]
fn many_that_are_dropped_with_their_engine_leave_nothing() {
    for round in 0..scaled(20) {
        let engine = engine();
        let random = &mut Random::new(round);
        let all: Vec<_> = (0..200).map(|_| start(&engine, any_schedule(random), 0)).collect();
        let own: Arc<Mutex<Option<Engine>>> = Arc::new(Mutex::new(Some(engine)));
        let canceller = own.clone();
        let ends = own.lock().unwrap().as_ref().unwrap().every(
            US * 300,
            compiled::task(move |_| {
                // The last, or one of the last, goes inside a task.
                drop(canceller.lock().unwrap().take());
            }),
        );
        drop(ends);
        for (_, periodic) in &all {
            while periodic.is_running() {
                thread::yield_now();
            }
        }
        for (seen, periodic) in &all {
            while seen.drops.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            seen.settle(periodic);
        }
    }
}
