//! The golden trace: a published walk through a hierarchical timing wheel, step by step, on the
//! shard that engines are made of.
//!
//! `data/golden-trace.json` says what is inserted and when time moves, and what must be true
//! after each step; nothing of it is repeated here. The trace rounds deadlines down to the tick,
//! so its deadlines are truncated before they are scheduled.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::slice;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tickless::local::{Geometry, Place};
use tickless::{Batch, Clock, ManualClock, Tick};
use tickless_core::dispatch::InHand;
use tickless_core::doorbell::{Bell, Doorbell};
use tickless_core::entry::{Entry, Filed, Linked, Phase};
use tickless_core::memory::Shared;
use tickless_core::producer::{self, Producer};
use tickless_core::reaper::{Observer, Reaper, Report};
use tickless_core::shard::Shard;
use tickless_core::sync::{AtomicBool, Ordering};
use tickless_core::time::Scale;

/// A shard, a thread's producer of it, and what was scheduled through it.
struct Bench {
    shared: Shared<u64>,
    shard: Shard<u64>,
    producer: Producer<u64>,
    /// Where each pending task is expected.
    places: BTreeMap<u64, Place>,
    entries: BTreeMap<u64, NonNull<Entry<u64>>>,
}

impl Bench {
    fn new(wheel_size: u32, start: Tick) -> Bench {
        let geometry = Geometry::new(wheel_size, wheel_size).unwrap();
        // SAFETY: what is built on it keeps to it, and is closed before it goes.
        let shared = unsafe { Shared::new(1, 1, None) };
        let shard = Shard::new(0, geometry, Doorbell::new(Bell::None), start, &shared);
        let producer = Producer::new(&shared, 0);
        Bench { shared, shard, producer, places: BTreeMap::new(), entries: BTreeMap::new() }
    }

    fn insert(&mut self, task: u64, deadline: Tick, now: Tick) -> Filed {
        let Bench { shared, shard, producer, .. } = self;
        let filed = producer.schedule::<false, false>(shared, shard, deadline, || now, task, true);
        let (entry, deferred) = filed.unwrap();
        assert!(deferred.is_nothing(), "there is no hook");
        self.entries.insert(task, entry);
        self.entry(task).filed()
    }

    /// Runs a turn and answers what fired, in order.
    fn turn(&self, now: Tick) -> (Report, Vec<u64>) {
        let fired = Mutex::new(Vec::new());
        let handler = |batch: Batch<'_, u64>| fired.lock().unwrap().extend(batch);
        let clock = Clock::manual(&ManualClock::new());
        let reaper = Reaper {
            shard: &self.shard,
            shared: &self.shared,
            handler: &handler,
            clock: &clock,
            scale: Scale::new(Duration::from_secs(1)).unwrap(),
            observer: &Observer::default(),
            stopping: &AtomicBool::new(false),
            watch: None,
            leads: false,
        };
        let report = reaper.turn(&mut InHand::new(), now, usize::MAX).unwrap();
        (report, fired.into_inner().unwrap())
    }

    fn entry(&self, task: u64) -> &Entry<u64> {
        // SAFETY: the bench has the handle of every task until it is dropped.
        unsafe { self.entries[&task].as_ref() }
    }

    /// Whether the bucket's list holds the task's entry.
    fn is_in(&self, task: u64, place: Place) -> bool {
        let bucket = self.shard.wheel().bucket(place).unwrap();
        bucket.firsts().any(|first| {
            let mut node = first;
            while !node.is_null() && node != self.entries[&task].as_ptr() {
                // SAFETY: what is in a list is allocated, and nobody else is there to take it.
                node = unsafe { &*node }.next().load(Ordering::Relaxed);
            }
            !node.is_null()
        })
    }

    /// The armed buckets, in order of expiration.
    fn queue(&self) -> Vec<(Tick, u8, u32)> {
        let mut owner = self.shard.owner().lock().unwrap();
        self.shard.read_notices(&mut owner);
        let items = owner.heap().iter().map(|p| (p.expiration, p.level, p.slot));
        let mut queue: Vec<_> = items.collect();
        queue.sort_unstable();
        queue
    }

    fn levels(&self) -> Vec<u8> {
        let mut levels: Vec<u8> = self.shard.wheel().existing().map(|(level, ..)| level).collect();
        levels.dedup();
        levels
    }

    /// The clock of a level: the shard's, as far as the level's buckets tell it.
    fn clock_of(&self, level: u8) -> Tick {
        self.shard.wheel().geometry().place_on(self.shard.clock(), level).expiration
    }

    fn assert_everything_is_in_its_place(&self) {
        for (&task, &place) in &self.places {
            assert_eq!(self.entry(task).filed(), Filed::of(place), "task {task}");
            assert!(self.is_in(task, place), "task {task} is not in {place:?}");
        }
        self.shard.check(&mut self.shard.owner().lock().unwrap(), self.shard.clock()).unwrap();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        drop(self.shard.close(&mut self.shard.owner().lock().unwrap(), &self.shared));
        for &entry in self.entries.values() {
            let shards = slice::from_ref(&self.shard);
            // SAFETY: the bench had the handle, and is going.
            unsafe { producer::let_go(entry, (&mut self.producer, &self.shared, shards)) };
        }
        assert!(self.producer.clear(&self.shared).is_nothing());
    }
}

fn golden() -> Value {
    serde_json::from_str(include_str!("../data/golden-trace.json")).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn seconds(ms: &Value) -> Tick {
    Tick::new(number(ms) / 1000)
}

/// `[level, bucket, expiration]` of the trace.
fn place(triple: &Value) -> Place {
    let [level, slot, at] = [&triple[0], &triple[1], &triple[2]];
    Place { level: number(level) as u8, slot: number(slot) as u32, expiration: seconds(at) }
}

fn queue(triples: &Value) -> Vec<(Tick, u8, u32)> {
    let items = list(triples).iter().map(place).map(|p| (p.expiration, p.level, p.slot));
    let mut queue: Vec<_> = items.collect();
    queue.sort_unstable();
    queue
}

fn assert_clocks(bench: &Bench, current_ms: &Value) {
    for (level, ms) in (1_u8..).zip(list(current_ms)) {
        assert_eq!(bench.clock_of(level), seconds(ms), "clock of level {level}");
    }
}

#[test]
fn the_shard_follows_the_golden_trace_step_by_step() {
    let golden = golden();
    assert_eq!(number(&golden["tick_ms"]), 1000, "the bench counts seconds");
    let start = seconds(&golden["start_ms"]);
    let mut bench = Bench::new(number(&golden["wheel_size"]) as u32, start);
    for (level, ms) in (1_u8..).zip(list(&golden["level_tick_ms"])) {
        assert_eq!(bench.shard.wheel().geometry().width(level) * 1000, number(ms));
    }
    assert_clocks(&bench, &golden["initial"]["current_ms"]);
    assert_eq!(bench.queue(), queue(&golden["initial"]["queue"]));

    let mut levels = vec![1];
    for step in list(&golden["inserts"]) {
        insert_as_told(&mut bench, step, start, &mut levels);
    }
    assert_eq!(bench.queue(), queue(&golden["queue_after_inserts"]));

    for step in list(&golden["advances"]) {
        advance_as_told(&mut bench, step);
        assert_eq!(bench.levels(), levels, "an advance makes no level and removes none");
    }
    assert!(bench.places.is_empty(), "every task has fired");
}

fn insert_as_told(bench: &mut Bench, step: &Value, start: Tick, levels: &mut Vec<u8>) {
    let task = number(&step["task"]);
    let armed_before = bench.queue();
    assert!(!bench.shard.has_notices());
    let filed = bench.insert(task, seconds(&step["deadline_ms"]), start);
    let newly_armed = step["armed"].as_bool().unwrap();
    assert_eq!(bench.shard.has_notices(), newly_armed, "a notice is posted for task {task}");
    let expected = Place {
        level: number(&step["level"]) as u8,
        slot: number(&step["bucket"]) as u32,
        expiration: seconds(&step["bucket_expiration_ms"]),
    };
    assert_eq!(filed, Filed::of(expected), "task {task}");
    bench.places.insert(task, expected);
    bench.assert_everything_is_in_its_place();

    let item = (expected.expiration, expected.level, expected.slot);
    assert_eq!(!armed_before.contains(&item), newly_armed, "task {task}");
    assert_eq!(bench.queue().len(), armed_before.len() + usize::from(newly_armed));
    assert!(bench.queue().contains(&item), "task {task}");

    if let Some(level) = step.get("creates_level") {
        levels.push(number(level) as u8);
        assert_eq!(bench.clock_of(number(level) as u8), seconds(&step["new_level_current_ms"]));
    }
    assert_eq!(&bench.levels(), levels, "task {task}");
}

fn advance_as_told(bench: &mut Bench, step: &Value) {
    let to = seconds(&step["to_ms"]);
    let (report, fired) = bench.turn(to);
    let told: Vec<u64> = list(&step["fired"]).iter().map(number).collect();
    assert_eq!(fired, told, "at {to:?}");
    assert_eq!(report.fired, told.len());
    for task in fired {
        assert_eq!(bench.entry(task).word().phase(), Phase::Fired, "task {task}");
        bench.places.remove(&task).expect("it was pending");
    }
    for (task, moved_to) in step["moved"].as_object().unwrap() {
        bench.places.insert(task.parse().unwrap(), place(moved_to));
    }
    bench.assert_everything_is_in_its_place();
    assert_clocks(bench, &step["current_ms"]);
    let told = queue(&step["queue"]);
    assert_eq!(bench.queue(), told, "at {to:?}");
    assert!(!report.busy);
    assert_eq!(report.next, told.first().map_or(Tick::NEVER, |&(at, ..)| at));
}

#[test]
fn the_worked_examples_are_filed_and_cascade_as_published() {
    let golden = golden();
    let geometry = Geometry::new(20, 20).unwrap();
    for case in list(&golden["worked_examples"]["cases"]) {
        let now = Tick::new(number(&case["now_ms"]));
        let deadline = now.saturating_add(number(&case["delay_ms"]));
        let place = geometry.place(deadline, now);
        assert_eq!(u64::from(place.level), number(&case["level"]), "{case}");
        assert_eq!(u64::from(place.slot), number(&case["bucket"]), "{case}");
        if let Some(expiration) = case.get("bucket_expiration_ms") {
            assert_eq!(place.expiration.get(), number(expiration), "{case}");
        }

        let mut bench = Bench::new(20, now);
        assert_eq!(bench.insert(1, deadline, now), Filed::of(place), "{case}");
        assert!(bench.is_in(1, place), "{case}");
        for step in case.get("cascade").map_or(&[][..], |steps| list(steps)) {
            cascade_as_told(&bench, deadline, step);
        }
    }
}

fn cascade_as_told(bench: &Bench, deadline: Tick, step: &Value) {
    let at = Tick::new(number(&step["at_ms"]));
    let (_, fired) = bench.turn(at);
    if step.get("fires").is_some() {
        assert_eq!(fired, [1], "{step}");
        return;
    }
    assert!(fired.is_empty(), "{step}");
    let level = number(&step["level"]) as u8;
    let geometry = *bench.shard.wheel().geometry();
    let place = geometry.place_on(deadline, level);
    let end = place.expiration.saturating_add(geometry.width(level));
    let range = [place.expiration.get(), end.get()];
    assert_eq!(range.to_vec(), list(&step["range_ms"]).iter().map(number).collect::<Vec<_>>());
    assert_eq!(bench.entry(1).filed(), Filed::of(place), "{step}");
    assert!(bench.is_in(1, place), "{step}");
}
