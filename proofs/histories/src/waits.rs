//! Records histories of timers whose tasks can be waited for.
//!
//! The caller's end lies in a slot under a lock, so one thread at a time uses it; it races with the
//! reaper, the task, the drop of what the task captured, and stops.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tickless::wait::{Ended, Stage, WaitError};
use tickless::{Engine, ResetError, ScheduleError, Task, Waitable};

use crate::faults::{Fault, dawdle};
use crate::history::{CALLBACK, Operation, Recorder};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::timeline::{Stamp, Timeline};
use crate::timer::Refusal;
use crate::waited::Call;

thread_local! {
    /// When this thread began to run a task that a stop has returned.
    static RUN_BY_CALLER: Cell<Option<Stamp>> = const { Cell::new(None) };
}

/// What the threads of a history share.
#[derive(Debug)]
struct World {
    scenario: Scenario,
    timeline: Timeline,
    fault: Option<Fault>,
    engine: Engine,
    log: Mutex<Vec<Operation<Call>>>,
    slots: Vec<Slot>,
    next: AtomicU32,
}

#[derive(Debug, Default)]
struct Slot {
    waitable: Mutex<Option<Waitable>>,
    /// When it is due, by the stamps.
    due_at: AtomicU64,
    is_short: AtomicBool,
    is_over: AtomicBool,
}

/// What a task captures.
#[derive(Debug)]
struct Capture {
    id: u32,
    world: Arc<World>,
}

/// Records the history of a scenario.
///
/// # Panics
/// Captures leak.
pub fn record(scenario: &Scenario, fault: Option<Fault>) -> Vec<Operation<Call>> {
    let world = Arc::new(World {
        timeline: Timeline::new(scenario.manual.clone()),
        fault,
        engine: scenario.builder().build().expect("an engine"),
        log: Mutex::default(),
        slots: (0..scenario.timers).map(|_| Slot::default()).collect(),
        next: AtomicU32::new(0),
        scenario: scenario.clone(),
    });
    let is_done = AtomicBool::new(false);
    let barrier = Barrier::new(scenario.threads as usize);
    let mut operations = thread::scope(|threads| {
        let drive = || scenario.drive(&world.timeline, &world.engine, &is_done);
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
    // ORDER: Relaxed - the threads have ended.
    let count = world.next.load(Ordering::Relaxed).min(scenario.timers);
    operations.retain(|operation| operation.id < count);
    assert_eq!(Arc::strong_count(&world), 1, "seed {:#x}: captures leak", scenario.seed);
    operations
}

// === impl World ===

impl World {
    fn work(self: &Arc<World>, thread: u64) -> Vec<Operation<Call>> {
        let recorder = &mut Recorder::new(&self.timeline, thread as u32);
        let random = &mut Random::of_thread(self.scenario.seed, thread);
        let stops_at = (self.scenario.stops && thread == 0).then(|| random.below(20));
        for step in 0..self.scenario.steps {
            if stops_at == Some(step) {
                self.stop(recorder, random);
            }
            self.act(recorder, random, true);
        }
        std::mem::take(&mut recorder.operations)
    }

    fn act(
        self: &Arc<World>,
        recorder: &mut Recorder<'_, Call>,
        random: &mut Random,
        may_wait: bool,
    ) {
        // ORDER: Relaxed - a number that is not there yet is not chosen.
        let known = self.next.load(Ordering::Relaxed).min(self.scenario.timers);
        if known == 0 || random.once_in(3) {
            return self.schedule(recorder, random);
        }
        let id = random.below(known.into()) as u32;
        if may_wait && random.once_in(2) {
            // ORDER: Relaxed - a hint.
            let due_at = self.slots[id as usize].due_at.load(Ordering::Relaxed);
            self.timeline.wait_near(due_at, random);
        }
        let Ok(mut slot) = self.slots[id as usize].waitable.try_lock() else { return };
        let Some(waitable) = &mut *slot else { return };
        match random.below(8) {
            0..=2 => _ = recorder.record(id, || waitable.stage(), |it| Call::Stage(*it)),
            3 => self.reset(recorder, id, waitable, random),
            4 => {
                if recorder.record(id, || waitable.cancel(), |it| Call::Cancel(*it)) {
                    self.note_end(id);
                }
            }
            5 => *slot = None,
            _ if may_wait => {
                let limit = random.once_in(2).then(|| Duration::from_micros(random.below(100)));
                self.wait(recorder, id, waitable, limit);
            }
            _ => self.wait(recorder, id, waitable, Some(Duration::from_micros(20))),
        }
    }

    fn schedule(self: &Arc<World>, recorder: &mut Recorder<'_, Call>, random: &mut Random) {
        // ORDER: Relaxed - the numbers differ.
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(slot) = self.slots.get(id as usize) else { return };
        let delay = self.scenario.delay(random);
        self.note_deadline(slot, delay);
        let capture = Capture { id, world: self.clone() };
        let describe = |result: &Result<Waitable, ScheduleError<Task>>| {
            let result = result.as_ref().map(drop).map_err(|_refused| Refusal::Stopped);
            Call::Schedule(delay.as_nanos() as u64, result)
        };
        let call = || self.engine.schedule_waitable(delay, move || capture.run());
        *slot.waitable.lock().expect("a slot") = recorder.record(id, call, describe).ok();
    }

    fn reset(
        &self,
        recorder: &mut Recorder<'_, Call>,
        id: u32,
        waitable: &mut Waitable,
        random: &mut Random,
    ) {
        let delay = self.scenario.delay(random);
        let describe = |result: &Result<(), ResetError>| {
            let result = result.map_err(|error| match error {
                ResetError::TooLate => Refusal::TooLate,
                _ => Refusal::Stopped,
            });
            Call::Reset(delay.as_nanos() as u64, result)
        };
        if recorder.record(id, || waitable.reset(delay), describe).is_ok() {
            self.note_deadline(&self.slots[id as usize], delay);
        }
    }

    fn wait(
        &self,
        recorder: &mut Recorder<'_, Call>,
        id: u32,
        waitable: &mut Waitable,
        limit: Option<Duration>,
    ) {
        let before = self.timeline.before();
        let result = match (self.fault, limit) {
            (Some(Fault::WaitThatReturnsEarly), _) if waitable.stage() == Stage::Running => {
                Ok(Ended::Finished)
            }
            (_, Some(limit)) => waitable.cancel_wait_within(limit),
            (_, None) => waitable.cancel_wait(),
        };
        let after = self.timeline.after();
        match result {
            Ok(ended) => {
                recorder.push(id, before, after, Call::Settle(ended));
                recorder.push(id, before, after, Call::Over);
                self.note_end(id);
            }
            Err(WaitError::TimedOut | WaitError::Circular) => {
                recorder.push(id, before, after, Call::TimedOut);
            }
            // A task that has come to the timer of its own.
            Err(error) => assert_eq!(error, WaitError::InsideTask),
        }
    }

    fn note_deadline(&self, slot: &Slot, delay: Duration) {
        let due_at = self.timeline.at().saturating_add(delay.as_nanos() as u64);
        // ORDER: Relaxed - a hint; and the drain begins after the threads have ended.
        slot.due_at.store(due_at, Ordering::Relaxed);
        slot.is_short.store(Scenario::is_short(delay), Ordering::Relaxed);
    }

    fn note_end(&self, id: u32) {
        // ORDER: Relaxed - the drain looks again and again.
        self.slots[id as usize].is_over.store(true, Ordering::Relaxed);
    }

    /// Stops the engine, and drops or runs the tasks that this returns.
    fn stop(&self, recorder: &mut Recorder<'_, Call>, random: &mut Random) {
        let before = self.timeline.before();
        let tasks = self.engine.stop().expect("from outside");
        let after = self.timeline.after();
        for id in 0..self.scenario.timers {
            recorder.push(id, before, after, Call::Close);
            recorder.push(id, after, after, Call::Stopped);
        }
        for task in tasks {
            dawdle();
            if random.once_in(2) {
                RUN_BY_CALLER.set(Some(self.timeline.before()));
                task.run();
                RUN_BY_CALLER.set(None);
            }
        }
    }

    /// Waits until no timer is left that is due soon.
    fn drain(&self) -> Vec<Operation<Call>> {
        let recorder = &mut Recorder::new(&self.timeline, 0);
        let is_waiting = |slot: &Slot| {
            // ORDER: Relaxed - the loop looks again and again.
            slot.is_short.load(Ordering::Relaxed) && !slot.is_over.load(Ordering::Relaxed)
        };
        let begin = Instant::now();
        while self.slots.iter().any(is_waiting) && begin.elapsed() < self.scenario.patience {
            if self.engine.is_stopped() || !self.scenario.drains {
                return Vec::new();
            }
            thread::sleep(Duration::from_micros(20));
        }
        let now = self.timeline.after();
        let is_at_work = self.scenario.drains && !self.engine.is_stopped();
        for id in (0..self.scenario.timers).filter(|_| is_at_work) {
            recorder.push(id, now, now, Call::Quiet);
        }
        std::mem::take(&mut recorder.operations)
    }

    /// Stops the engine and waits for all tasks.
    fn end(&self) -> Vec<Operation<Call>> {
        let recorder = &mut Recorder::new(&self.timeline, 0);
        let random = &mut Random::of_thread(self.scenario.seed, u64::MAX - 1);
        self.stop(recorder, random);
        for id in 0..self.scenario.timers {
            let waitable = self.slots[id as usize].waitable.lock().expect("a slot").take();
            if let Some(mut waitable) = waitable {
                recorder.record(id, || waitable.stage(), |it| Call::Stage(*it));
                self.reset(recorder, id, &mut waitable, random);
                self.wait(recorder, id, &mut waitable, None);
                recorder.record(id, || waitable.stage(), |it| Call::Stage(*it));
            }
            let now = Stamp { at: u64::MAX, ..self.timeline.after() };
            recorder.push(id, now, now, Call::End);
        }
        std::mem::take(&mut recorder.operations)
    }
}

// === impl Capture ===

impl Capture {
    /// The task.
    fn run(self) {
        let world = self.world.clone();
        let after = world.timeline.after();
        let recorder = &mut Recorder::new(&world.timeline, CALLBACK);
        let by_caller = RUN_BY_CALLER.get();
        let unknown = Stamp { at: 0, clock_ns: 0 };
        // Without a turn, it may have begun at any time: the deadline is all that is known.
        let turn = world.timeline.turn_began().map(|at| Stamp { at, clock_ns: 0 });
        let before = by_caller.or(turn).unwrap_or(unknown);
        let call = Call::Begin { is_by_caller: by_caller.is_some() };
        recorder.push(self.id, before, after, call);
        let random = &mut Random::of_thread(world.scenario.seed, 1_000 + u64::from(self.id));
        let mut is_one_of = |times: u64| times > 0 && random.once_in(times);
        let (mischief, slow) = (is_one_of(world.scenario.mischief), is_one_of(2));
        if mischief {
            world.act(recorder, random, false);
        }
        let begin = Instant::now();
        while slow && begin.elapsed() < Duration::from_micros(60) {
            std::hint::spin_loop();
        }
        world.note_end(self.id);
        // It counts as finished when the engine has seen its return, which nobody else can see.
        let never = Stamp { at: u64::MAX, clock_ns: u64::MAX };
        recorder.push(self.id, world.timeline.before(), never, Call::Finish);
        world.log.lock().expect("a log").append(&mut recorder.operations);
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let recorder = &mut Recorder::new(&self.world.timeline, CALLBACK);
        recorder.record(self.id, || (), |()| Call::Drop);
        self.world.log.lock().expect("a log").append(&mut recorder.operations);
    }
}
