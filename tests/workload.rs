//! A random workload against a plain model: after each step every invariant holds, and what is
//! pending is what the model says.

mod common;
#[path = "common/random.rs"]
mod random;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::scaled;
use random::Random;
use tickless::{Batch, Builder, Handle, ManualClock, State, TypedEngine};

const GEOMETRIES: [(u32, u32); 6] = [(2, 2), (3, 3), (3, 2), (20, 20), (64, 32), (1000, 999)];

const SHARDS: usize = 2;

const TICK_NS: u64 = 1000;

/// An engine, and what it ought to do.
struct World {
    engine: TypedEngine<u64>,
    clock: ManualClock,
    /// The engine's time zero.
    zero: Instant,
    fired: Arc<Mutex<Vec<u64>>>,
    /// When each pending timer is due, in nanoseconds by the clock.
    due_ns: BTreeMap<u64, u64>,
    handles: BTreeMap<u64, Handle<u64>>,
    next: u64,
    random: Random,
}

impl World {
    fn new((slots, reach): (u32, u32), seed: u64) -> World {
        let (clock, fired) = (ManualClock::new(), Arc::new(Mutex::new(Vec::new())));
        let log = fired.clone();
        let handler = move |batch: Batch<'_, u64>| log.lock().unwrap().extend(batch);
        let builder = Builder::new().tick(Duration::from_nanos(TICK_NS)).slots(slots).reach(reach);
        let engine = builder.shards(SHARDS).manual_clock(&clock).build_typed(handler).unwrap();
        let zero = engine.now();
        let random = Random::new(seed);
        let (due_ns, handles) = (BTreeMap::new(), BTreeMap::new());
        World { engine, clock, zero, fired, due_ns, handles, next: 0, random }
    }

    fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// A delay on one level as likely as on another; zero at times.
    fn some_delay(&mut self) -> Duration {
        let bits = self.random.below(36);
        Duration::from_nanos(self.random.below(1 << bits))
    }

    fn due_after(&self, delay: Duration) -> u64 {
        (self.now_ns() + delay.as_nanos() as u64).div_ceil(TICK_NS) * TICK_NS
    }

    fn some_handle(&mut self) -> Option<(u64, Handle<u64>)> {
        let count = self.handles.len() as u64;
        let at = self.random.below(count.max(1)) as usize;
        let number = *self.handles.keys().nth(at)?;
        Some((number, self.handles.remove(&number)?))
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..6 => self.schedule(),
            6..9 => self.cancel(),
            9..13 => self.reset(),
            13 => drop(self.some_handle()),
            14 => self.clock.advance(Duration::from_nanos(777)),
            15 => self.turns_at_most(),
            _ => self.advance(),
        }
    }

    fn schedule(&mut self) {
        let (delay, number) = (self.some_delay(), self.next);
        self.next += 1;
        self.engine.bind_thread(self.random.below(SHARDS as u64) as usize);
        self.due_ns.insert(number, self.due_after(delay));
        if self.random.below(5) == 0 {
            self.engine.schedule_detached(delay, number).unwrap();
        } else {
            let handle = self.engine.schedule(delay, number).unwrap();
            self.handles.insert(number, handle);
        }
    }

    fn cancel(&mut self) {
        let Some((number, handle)) = self.some_handle() else { return };
        let pending = self.due_ns.remove(&number).is_some();
        let expected = pending.then_some(number);
        if self.random.below(8) == 0 {
            // From a thread that ends right after, and leaves what it keeps.
            let taken = thread::spawn(move || handle.take()).join().unwrap();
            assert_eq!(taken, expected);
        } else {
            assert_eq!(handle.take(), expected);
        }
    }

    fn reset(&mut self) {
        let Some((number, mut handle)) = self.some_handle() else { return };
        let delay = self.some_delay();
        let pending = self.due_ns.contains_key(&number);
        assert_eq!(handle.reset(delay).unwrap(), pending);
        if pending {
            self.due_ns.insert(number, self.due_after(delay));
        }
        self.handles.insert(number, handle);
    }

    fn turns_at_most(&mut self) {
        let shard = self.random.below(SHARDS as u64) as usize;
        let bound = self.random.below(4) as usize;
        let turn = self.engine.turn_at_most(shard, bound).unwrap();
        assert!(turn.fired <= bound);
        self.account_for(turn.fired);
    }

    fn advance(&mut self) {
        let by = self.some_delay() / 8;
        let fired = self.engine.advance(by).unwrap();
        self.account_for(fired);
        let now_ns = self.now_ns();
        assert!(self.due_ns.values().all(|&due| due > now_ns), "all that was due has fired");
        self.assert_the_snapshot_is_true();
    }

    /// Crosses off what fired, each once and none early.
    fn account_for(&mut self, fired: usize) {
        let now_ns = self.now_ns();
        let log = std::mem::take(&mut *self.fired.lock().unwrap());
        assert_eq!(log.len(), fired);
        for number in log {
            let due_ns = self.due_ns.remove(&number).expect("it was pending");
            assert!(due_ns <= now_ns, "{number} is {} ns early", due_ns - now_ns);
        }
    }

    /// At rest, when nothing is in hand.
    fn assert_the_snapshot_is_true(&self) {
        let snapshot = self.engine.snapshot();
        let deadlines = snapshot.iter().map(|timer| timer.deadline.unwrap() - self.zero);
        let mut found: Vec<_> = deadlines.map(|deadline| deadline.as_nanos() as u64).collect();
        found.sort_unstable();
        let mut expected: Vec<_> = self.due_ns.values().copied().collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    fn assert_everything_holds(&self) {
        self.engine.check().unwrap();
        assert_eq!(self.engine.len(), self.due_ns.len());
        for (number, handle) in &self.handles {
            let pending = self.due_ns.contains_key(number);
            assert_eq!(handle.state() == State::Pending, pending, "timer {number}");
            if let Some(&due_ns) = self.due_ns.get(number) {
                assert_eq!(handle.deadline().unwrap(), self.zero + Duration::from_nanos(due_ns));
            }
        }
    }

    fn end(mut self) {
        // Past the longest delay.
        let fired = self.engine.advance(Duration::from_nanos(1 << 37)).unwrap();
        self.account_for(fired);
        assert!(self.due_ns.is_empty(), "everything fires in the end");
        self.assert_everything_holds();
        assert_eq!(self.engine.stats().dead, 0, "and every bucket has opened");
        assert!(self.engine.snapshot().is_empty());
        assert_eq!(self.engine.stop().unwrap().len(), 0);
    }
}

fn run(geometry: (u32, u32)) {
    // To look at everything after each step takes long where there are many buckets.
    let (seeds, steps) = if geometry.0 > 100 { (1, 500) } else { (4, 1000) };
    for seed in 0..scaled(seeds) {
        let mut world = World::new(geometry, seed);
        for _ in 0..steps {
            world.step();
            world.assert_everything_holds();
        }
        world.end();
    }
}

#[test]
fn a_wheel_of_two_slots_does_as_the_model_says() {
    run(GEOMETRIES[0]);
}

#[test]
fn a_wheel_of_three_slots_does_as_the_model_says() {
    run(GEOMETRIES[1]);
}

#[test]
fn a_wheel_of_three_slots_that_reaches_two_does_as_the_model_says() {
    run(GEOMETRIES[2]);
}

#[test]
fn a_wheel_of_twenty_slots_does_as_the_model_says() {
    run(GEOMETRIES[3]);
}

#[test]
fn a_wheel_of_the_default_shape_does_as_the_model_says() {
    run(GEOMETRIES[4]);
}

#[test]
fn a_wheel_of_a_thousand_slots_does_as_the_model_says() {
    run(GEOMETRIES[5]);
}
