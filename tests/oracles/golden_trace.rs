//! The golden trace: a published walk through a hierarchical timing wheel, step by step, on the
//! shard that engines are made of.
//!
//! `data/golden-trace.json` says what is inserted and when time moves, and what must be true
//! after each step; nothing of it is repeated here. The trace rounds deadlines down to the tick,
//! so its deadlines are truncated before they are scheduled.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::slice;
use std::time::Duration;

use serde_json::Value;
use tickless::local::{Geometry, Place};
use tickless::{ManualClock, Tick};
use tickless_core::bench::{Around, Bench};
use tickless_core::doorbell::Bell;
use tickless_core::entry::{self, Entry, Filed, Phase};
use tickless_core::memory::Shared;
use tickless_core::producer;
use tickless_core::reaper::Report;

/// A shard with a thread's producer, and what was scheduled through it.
struct Trace {
    bench: Bench<u64>,
    /// Where each pending task is expected.
    places: BTreeMap<u64, Place>,
    entries: BTreeMap<u64, NonNull<Entry<u64>>>,
}

impl Trace {
    fn new(wheel_size: u32, start: Tick) -> Trace {
        let geometry = Geometry::new(wheel_size, wheel_size).unwrap();
        // SAFETY: what is built on it keeps to it; the bench closes its shard.
        let shared = unsafe { Shared::new(1, 1, None) };
        let mut bench = Bench::new(shared, geometry, Bell::None, start);
        bench.around = Around::new(&ManualClock::new(), Duration::from_secs(1));
        Trace { bench, places: BTreeMap::new(), entries: BTreeMap::new() }
    }

    fn insert(&mut self, task: u64, deadline: Tick, now: Tick) -> Filed {
        let entry = self.bench.schedule([deadline.get(), now.get()], task, true);
        self.entries.insert(task, entry);
        self.entry(task).filed()
    }

    /// Runs a turn and answers what fired, in order.
    fn turn(&self, now: Tick) -> (Report, Vec<u64>) {
        self.bench.turn(now, usize::MAX)
    }

    fn entry(&self, task: u64) -> &Entry<u64> {
        // SAFETY: the trace has the handle of every task until it is dropped.
        unsafe { self.entries[&task].as_ref() }
    }

    /// Whether the bucket's list holds the task's entry.
    fn is_in(&self, task: u64, place: Place) -> bool {
        let bucket = self.bench.shard.wheel().bucket(place).unwrap();
        let reader = entry::read();
        bucket.entries(reader.guard()).any(|entry| NonNull::from(entry) == self.entries[&task])
    }

    /// The armed buckets, in order of expiration.
    fn queue(&self) -> Vec<(Tick, u8, u32)> {
        let mut owner = self.bench.shard.owner().lock().unwrap();
        self.bench.shard.read_notices(&mut owner, &self.bench.shared);
        let items = owner.armed().map(|p| (p.expiration, p.level, p.slot));
        let mut queue: Vec<_> = items.collect();
        queue.sort_unstable();
        queue
    }

    fn levels(&self) -> Vec<u8> {
        let (reader, wheel) = (entry::read(), self.bench.shard.wheel());
        let mut levels: Vec<u8> = wheel.existing(reader.guard()).map(|(level, ..)| level).collect();
        levels.dedup();
        levels
    }

    /// The clock of a level: the shard's, as far as the level's buckets tell it.
    fn clock_of(&self, level: u8) -> Tick {
        self.bench.shard.wheel().geometry().place_on(self.bench.shard.clock(), level).expiration
    }

    fn assert_everything_is_in_its_place(&self) {
        for (&task, &place) in &self.places {
            assert_eq!(self.entry(task).filed(), Filed::of(place), "task {task}");
            assert!(self.is_in(task, place), "task {task} is not in {place:?}");
        }
        self.bench.check(self.bench.shard.clock());
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let Bench { shard, producer, shared, .. } = &mut self.bench;
        drop(shard.close(&mut shard.owner().lock().unwrap(), shared));
        for &entry in self.entries.values() {
            let shards = slice::from_ref(&*shard);
            // SAFETY: the trace had the handle, and is going.
            unsafe { producer::let_go(entry, (&mut *producer, &*shared, shards)) };
        }
        assert!(producer.clear(shared).is_nothing());
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

fn assert_clocks(trace: &Trace, current_ms: &Value) {
    for (level, ms) in (1_u8..).zip(list(current_ms)) {
        assert_eq!(trace.clock_of(level), seconds(ms), "clock of level {level}");
    }
}

#[test]
fn the_shard_follows_the_golden_trace_step_by_step() {
    let golden = golden();
    assert_eq!(number(&golden["tick_ms"]), 1000, "the trace counts seconds");
    let start = seconds(&golden["start_ms"]);
    let mut trace = Trace::new(number(&golden["wheel_size"]) as u32, start);
    for (level, ms) in (1_u8..).zip(list(&golden["level_tick_ms"])) {
        assert_eq!(trace.bench.shard.wheel().geometry().width(level) * 1000, number(ms));
    }
    assert_clocks(&trace, &golden["initial"]["current_ms"]);
    assert_eq!(trace.queue(), queue(&golden["initial"]["queue"]));

    let mut levels = vec![1];
    for step in list(&golden["inserts"]) {
        insert_as_told(&mut trace, step, start, &mut levels);
    }
    assert_eq!(trace.queue(), queue(&golden["queue_after_inserts"]));

    for step in list(&golden["advances"]) {
        advance_as_told(&mut trace, step);
        assert_eq!(trace.levels(), levels, "an advance makes no level and removes none");
    }
    assert!(trace.places.is_empty(), "every task has fired");
}

fn insert_as_told(trace: &mut Trace, step: &Value, start: Tick, levels: &mut Vec<u8>) {
    let task = number(&step["task"]);
    let armed_before = trace.queue();
    assert!(!trace.bench.shard.has_notices());
    let filed = trace.insert(task, seconds(&step["deadline_ms"]), start);
    let newly_armed = step["armed"].as_bool().unwrap();
    assert_eq!(trace.bench.shard.has_notices(), newly_armed, "a notice is posted for task {task}");
    let expected = Place {
        level: number(&step["level"]) as u8,
        slot: number(&step["bucket"]) as u32,
        expiration: seconds(&step["bucket_expiration_ms"]),
    };
    assert_eq!(filed, Filed::of(expected), "task {task}");
    trace.places.insert(task, expected);
    trace.assert_everything_is_in_its_place();

    let item = (expected.expiration, expected.level, expected.slot);
    assert_eq!(!armed_before.contains(&item), newly_armed, "task {task}");
    assert_eq!(trace.queue().len(), armed_before.len() + usize::from(newly_armed));
    assert!(trace.queue().contains(&item), "task {task}");

    if let Some(level) = step.get("creates_level") {
        levels.push(number(level) as u8);
        assert_eq!(trace.clock_of(number(level) as u8), seconds(&step["new_level_current_ms"]));
    }
    assert_eq!(&trace.levels(), levels, "task {task}");
}

fn advance_as_told(trace: &mut Trace, step: &Value) {
    let to = seconds(&step["to_ms"]);
    let (report, fired) = trace.turn(to);
    let told: Vec<u64> = list(&step["fired"]).iter().map(number).collect();
    assert_eq!(fired, told, "at {to:?}");
    assert_eq!(report.fired, told.len());
    for task in fired {
        assert_eq!(trace.entry(task).word().phase(), Phase::Fired, "task {task}");
        trace.places.remove(&task).expect("it was pending");
    }
    for (task, moved_to) in step["moved"].as_object().unwrap() {
        trace.places.insert(task.parse().unwrap(), place(moved_to));
    }
    trace.assert_everything_is_in_its_place();
    assert_clocks(trace, &step["current_ms"]);
    let told = queue(&step["queue"]);
    assert_eq!(trace.queue(), told, "at {to:?}");
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

        let mut trace = Trace::new(20, now);
        assert_eq!(trace.insert(1, deadline, now), Filed::of(place), "{case}");
        assert!(trace.is_in(1, place), "{case}");
        for step in case.get("cascade").map_or(&[][..], |steps| list(steps)) {
            cascade_as_told(&trace, deadline, step);
        }
    }
}

fn cascade_as_told(trace: &Trace, deadline: Tick, step: &Value) {
    let at = Tick::new(number(&step["at_ms"]));
    let (_, fired) = trace.turn(at);
    if step.get("fires").is_some() {
        assert_eq!(fired, [1], "{step}");
        return;
    }
    assert!(fired.is_empty(), "{step}");
    let level = number(&step["level"]) as u8;
    let geometry = *trace.bench.shard.wheel().geometry();
    let place = geometry.place_on(deadline, level);
    let end = place.expiration.saturating_add(geometry.width(level));
    let range = [place.expiration.get(), end.get()];
    assert_eq!(range.to_vec(), list(&step["range_ms"]).iter().map(number).collect::<Vec<_>>());
    assert_eq!(trace.entry(1).filed(), Filed::of(place), "{step}");
    assert!(trace.is_in(1, place), "{step}");
}
