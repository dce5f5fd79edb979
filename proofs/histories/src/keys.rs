//! Records histories of timers under a few keys, which all threads use at the same time.
//!
//! A task captures a value that notes its drop on the thread that drops it. So a caller learns
//! which task it has cancelled or replaced.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tickless_keyed::{IfAbsentReason, KeyedTimers, ResetError, Scheduled};

use crate::faults::{Fault, dawdle};
use crate::history::{CALLBACK, Operation, Recorder};
use crate::key::{Call, Put, PutIfAbsent, Reset};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::timeline::{Stamp, Timeline};

thread_local! {
    /// The tasks whose captures this thread has dropped.
    static DROPPED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// When this thread began to run a task that a stop has returned.
    static RUN_BY_CALLER: Cell<Option<Stamp>> = const { Cell::new(None) };
}

/// How many keys there are.
pub const KEYS: u32 = 3;

/// What the threads of a history share.
#[derive(Debug)]
struct World {
    scenario: Scenario,
    timeline: Timeline,
    fault: Option<Fault>,
    timers: OnceLock<KeyedTimers<u32>>,
    log: Mutex<Vec<Operation<Call>>>,
    next_task: AtomicU32,
}

/// What a task captures.
#[derive(Debug)]
struct Capture {
    key: u32,
    task: u32,
    world: Arc<World>,
}

/// Records the history of a scenario.
///
/// # Panics
/// Captures leak.
pub fn record(scenario: &Scenario, fault: Option<Fault>) -> Vec<Operation<Call>> {
    let engine = scenario.builder().build().expect("an engine");
    let world = Arc::new(World {
        timeline: Timeline::new(scenario.manual.clone()),
        fault,
        timers: KeyedTimers::with_engine(&engine).into(),
        log: Mutex::default(),
        next_task: AtomicU32::new(0),
        scenario: scenario.clone(),
    });
    let is_done = AtomicBool::new(false);
    let barrier = Barrier::new(scenario.threads as usize);
    let mut operations = thread::scope(|threads| {
        let drive = || scenario.drive(&world.timeline, &engine, &is_done);
        let driver = scenario.manual.is_some().then(|| threads.spawn(drive));
        let work = |thread: u64| {
            let (world, barrier) = (&world, &barrier);
            threads.spawn(move || {
                barrier.wait();
                world.work(thread)
            })
        };
        let workers: Vec<_> = (0..scenario.threads).map(work).collect();
        let joined = workers.into_iter().map(|worker| worker.join().expect("a worker"));
        let mut operations: Vec<_> = joined.flatten().collect();
        operations.extend(world.drain());
        // ORDER: Relaxed - the driver looks again and again.
        is_done.store(true, Ordering::Relaxed);
        driver.into_iter().for_each(|driver| driver.join().expect("the driver"));
        operations
    });
    operations.extend(world.end());
    operations.append(&mut world.log.lock().expect("a log"));
    begin_starts(&mut operations, scenario.manual.is_some());
    assert_eq!(Arc::strong_count(&world), 1, "seed {:#x}: captures leak", scenario.seed);
    operations
}

/// Gives each start without a begin the earliest time at which its timer can have been due.
fn begin_starts(operations: &mut [Operation<Call>], is_manual: bool) {
    let all = operations.to_vec();
    let starts = operations.iter_mut().filter(|it| it.begin == 0);
    for start in starts {
        let Call::Start { task, .. } = start.call else { continue };
        let due = |it: &Operation<Call>| match it.call {
            Call::Put(own, delay, _) | Call::PutIfAbsent(own, delay, _) if own == task => {
                Some(it.from_ns.saturating_add(delay))
            }
            Call::Reset(delay, Reset::Ok) if it.id == start.id => {
                Some(it.from_ns.saturating_add(delay))
            }
            _ => None,
        };
        let is_put = |it: &&Operation<Call>| match it.call {
            Call::Put(own, ..) | Call::PutIfAbsent(own, ..) => own == task,
            _ => false,
        };
        let put = all.iter().find(is_put).map_or(0, |it| it.begin);
        let earliest = all.iter().filter_map(due).min().unwrap_or(0);
        start.begin = if is_manual { put } else { put.max(earliest) }.min(start.end);
    }
}

// === impl World ===

impl World {
    fn timers(&self) -> &KeyedTimers<u32> {
        self.timers.get().expect("they were made with the world")
    }

    fn work(self: &Arc<World>, thread: u64) -> Vec<Operation<Call>> {
        let recorder = &mut Recorder::new(&self.timeline, thread as u32);
        let random = &mut Random::of_thread(self.scenario.seed, thread);
        let stops_at = (self.scenario.stops && thread == 0).then(|| random.below(20));
        for step in 0..self.scenario.steps {
            if stops_at == Some(step) {
                self.stop(recorder, random);
            }
            let key = random.below(KEYS.into()) as u32;
            if random.once_in(2) {
                let due = self.timers().deadline(&key);
                let left = due.map(|due| due.saturating_duration_since(Instant::now()));
                let due_at = left.map_or(0, |left| self.timeline.at() + left.as_nanos() as u64);
                self.timeline.wait_near(due_at, random);
            }
            self.act(recorder, key, random);
        }
        std::mem::take(&mut recorder.operations)
    }

    fn act(self: &Arc<World>, recorder: &mut Recorder<'_, Call>, key: u32, random: &mut Random) {
        match random.below(8) {
            0 | 1 => self.put(recorder, key, random),
            2 => self.put_if_absent(recorder, key, random),
            3 | 4 => self.cancel(recorder, key, random),
            5 => self.reset(recorder, key, random),
            _ => {
                let call = || {
                    let is_early = self.fault == Some(Fault::EarlyAbsence)
                        && self
                            .timers()
                            .deadline(&key)
                            .is_some_and(|due| due <= self.timers().engine().now());
                    !is_early && self.timers().contains_key(&key)
                };
                recorder.record(key, call, |it| Call::Contains(*it));
            }
        }
    }

    fn capture(self: &Arc<World>, key: u32) -> Capture {
        // ORDER: Relaxed - the numbers differ.
        Capture { key, task: self.next_task.fetch_add(1, Ordering::Relaxed), world: self.clone() }
    }

    fn put(self: &Arc<World>, recorder: &mut Recorder<'_, Call>, key: u32, random: &mut Random) {
        let delay = self.scenario.delay(random);
        let capture = self.capture(key);
        let task = capture.task;
        let call = || self.timers().schedule_keyed(key, delay, move || capture.run());
        let is_silent = self.fault == Some(Fault::SilentReplacement);
        let before = self.timeline.before();
        DROPPED.take();
        let result = call();
        let after = self.timeline.after();
        let put = match result {
            Ok(Scheduled::Replaced) if !is_silent => {
                let dropped = DROPPED.take();
                assert_eq!(dropped.len(), 1, "a replacement drops the old task");
                Put::Replaced(dropped.first().copied())
            }
            Ok(_) => Put::New,
            Err(_) => Put::Stopped,
        };
        recorder.push(key, before, after, Call::Put(task, delay.as_nanos() as u64, put));
    }

    fn put_if_absent(
        self: &Arc<World>,
        recorder: &mut Recorder<'_, Call>,
        key: u32,
        random: &mut Random,
    ) {
        let delay = self.scenario.delay(random);
        let capture = self.capture(key);
        let task = capture.task;
        let call = || self.timers().schedule_if_absent(key, delay, move || capture.run());
        let _ = recorder.record(key, call, |result| {
            let put = match result.as_ref().map_err(|refused| refused.reason()) {
                Ok(()) => PutIfAbsent::Ok,
                Err(IfAbsentReason::Occupied) => PutIfAbsent::Occupied,
                Err(IfAbsentReason::Stopped) => PutIfAbsent::Stopped,
                Err(other) => panic!("{other:?}"),
            };
            Call::PutIfAbsent(task, delay.as_nanos() as u64, put)
        });
    }

    fn cancel(&self, recorder: &mut Recorder<'_, Call>, key: u32, random: &mut Random) {
        let before = self.timeline.before();
        DROPPED.take();
        let mut taken = None;
        let is_cancelled = if self.fault == Some(Fault::CheckThenActKey) {
            let is_there = self.timers().contains_key(&key);
            dawdle();
            self.timers().cancel(&key);
            is_there
        } else if random.once_in(3) {
            taken = self.timers().take(&key);
            taken.is_some()
        } else {
            self.timers().cancel(&key)
        };
        let after = self.timeline.after();
        drop(taken);
        let task = DROPPED.take().first().copied();
        recorder.push(key, before, after, Call::Cancel { is_cancelled, task });
    }

    fn reset(&self, recorder: &mut Recorder<'_, Call>, key: u32, random: &mut Random) {
        let delay = self.scenario.delay(random);
        let _ = recorder.record(
            key,
            || self.timers().reset(&key, delay),
            |result| {
                let reset = match result {
                    Ok(()) => Reset::Ok,
                    Err(ResetError::Absent) if self.fault == Some(Fault::ResetOfNothing) => {
                        Reset::Ok
                    }
                    Err(ResetError::Absent) => Reset::Absent,
                    Err(ResetError::Stopped) => Reset::Stopped,
                    Err(other) => panic!("{other:?}"),
                };
                Call::Reset(delay.as_nanos() as u64, reset)
            },
        );
    }

    /// Stops the engine, and drops or runs the tasks that this returns.
    fn stop(&self, recorder: &mut Recorder<'_, Call>, random: &mut Random) {
        let before = self.timeline.before();
        let tasks = self.timers().engine().stop().expect("from outside");
        let after = self.timeline.after();
        for key in 0..KEYS {
            recorder.push(key, before, after, Call::Close);
            recorder.push(key, after, after, Call::Stopped);
        }
        for task in tasks {
            dawdle();
            if random.once_in(2) {
                RUN_BY_CALLER.set(Some(self.timeline.before()));
                task.run();
                RUN_BY_CALLER.set(None);
                continue;
            }
            let before = self.timeline.before();
            DROPPED.take();
            drop(task);
            let after = self.timeline.after();
            // It waited under one of the keys, or under none any more.
            for task in DROPPED.take() {
                (0..KEYS).for_each(|key| recorder.push(key, before, after, Call::Discard(task)));
            }
        }
    }

    /// Waits until no timer is left that is due soon. Each key is quiet while it is looked at: a
    /// task that still runs may schedule another timer right after.
    fn drain(&self) -> Vec<Operation<Call>> {
        let engine = self.timers().engine();
        let half_an_hour = Duration::from_secs(1800);
        let begin = Instant::now();
        while self.scenario.drains && !engine.is_stopped() {
            let recorder = &mut Recorder::new(&self.timeline, 0);
            let mut is_quiet = true;
            for key in 0..KEYS {
                let before = self.timeline.before();
                let due = self.timers().deadline(&key);
                let after = self.timeline.after();
                is_quiet &= due.is_none_or(|due| engine.now() + half_an_hour < due);
                // A timer that is not due before the look need not be over.
                let after = Stamp { clock_ns: before.clock_ns, ..after };
                recorder.push(key, before, after, Call::Quiet);
            }
            if is_quiet || self.scenario.patience < begin.elapsed() {
                return std::mem::take(&mut recorder.operations);
            }
            thread::sleep(Duration::from_micros(20));
        }
        Vec::new()
    }

    /// Stops the engine. Nothing is left then.
    fn end(&self) -> Vec<Operation<Call>> {
        let recorder = &mut Recorder::new(&self.timeline, 0);
        let random = &mut Random::of_thread(self.scenario.seed, u64::MAX - 1);
        self.stop(recorder, random);
        for key in 0..KEYS {
            recorder.record(key, || self.timers().contains_key(&key), |it| Call::Contains(*it));
            let now = self.timeline.after();
            recorder.push(key, now, now, Call::End);
        }
        assert_eq!(self.timers().len(), 0, "seed {:#x}: nothing waits", self.scenario.seed);
        std::mem::take(&mut recorder.operations)
    }
}

// === impl Capture ===

impl Capture {
    /// The task.
    fn run(self) {
        let world = &self.world;
        let after = world.timeline.after();
        let recorder = &mut Recorder::new(&world.timeline, CALLBACK);
        let by_caller = RUN_BY_CALLER.get();
        let turn = world.timeline.turn_began().map(|at| Stamp { at, clock_ns: 0 });
        let before = by_caller.or(turn).unwrap_or(Stamp { at: 0, clock_ns: 0 });
        let call = Call::Start { task: self.task, is_by_caller: by_caller.is_some() };
        recorder.push(self.key, before, after, call);
        let random = &mut Random::of_thread(world.scenario.seed, 1_000 + u64::from(self.task));
        if world.scenario.mischief > 0 && random.once_in(world.scenario.mischief) {
            let key = if random.once_in(2) { self.key } else { random.below(KEYS.into()) as u32 };
            world.act(recorder, key, random);
        }
        if world.scenario.slow > 0 && random.once_in(world.scenario.slow) {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(150) {
                std::hint::spin_loop();
            }
        }
        world.log.lock().expect("a log").append(&mut recorder.operations);
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // A thread that ends notes nothing.
        let _ = DROPPED.try_with(|dropped| dropped.borrow_mut().push(self.task));
    }
}
