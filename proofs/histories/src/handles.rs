//! Records histories of timers with handles: two to four threads, the reapers, and callbacks.
//!
//! A handle is one thread's at a time, as its type demands: it lies in a slot, from which any
//! thread may take it. Operations on it race with the reaper that fires the timer and with stops;
//! looks at its state race with each other as well.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant};
use std::{panic, thread};

use tickless::{Batch, Engine, Handle, ResetError, ScheduleReason, When};

use crate::faults::{self, Fault};
use crate::history::{CALLBACK, Operation, Recorder};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::timeline::{Stamp, Timeline};
use crate::timer::{Call, Refusal, Seen};

/// How many takeovers there were in all histories, so that a report can say that some occurred.
pub static TAKEOVERS: AtomicU64 = AtomicU64::new(0);

/// What the threads of a history share.
#[derive(Debug)]
pub struct World {
    /// The settings.
    scenario: Scenario,
    /// The stamps.
    timeline: Arc<Timeline>,
    /// The planted fault.
    fault: Option<Fault>,
    /// What callbacks have recorded.
    log: Mutex<Vec<Operation<Call>>>,
    engine: OnceLock<Engine<Token>>,
    slots: Vec<Slot>,
    next: AtomicU32,
    /// What a stop returned first.
    returned: Mutex<Option<u32>>,
}

/// A timer of the history.
#[derive(Debug, Default)]
struct Slot {
    handle: RwLock<Option<Handle<Token>>>,
    /// When it is due, by the stamps: where a race is to be found.
    due_at: AtomicU64,
    is_short: AtomicBool,
    is_over: AtomicBool,
}

/// The payload of a timer.
#[derive(Debug)]
pub struct Token {
    /// The timer.
    id: u32,
    /// Its history.
    world: Arc<World>,
}

/// Records the history of a scenario.
///
/// # Panics
/// A payload leaks, or the number of pending timers is wrong while no thread is inside a call.
pub fn record(scenario: &Scenario, fault: Option<Fault>) -> Vec<Operation<Call>> {
    let world = Arc::new(World::new(scenario.clone(), fault));
    let is_done = AtomicBool::new(false);
    let barrier = Barrier::new(scenario.threads as usize);
    let mut operations = thread::scope(|threads| {
        let driver = scenario
            .manual
            .is_some()
            .then(|| threads.spawn(|| scenario.drive(&world.timeline, world.engine(), &is_done)));
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
        if scenario.drains {
            operations.extend(world.drain());
        }
        // ORDER: Relaxed - the driver looks again and again.
        is_done.store(true, Ordering::Relaxed);
        driver.into_iter().for_each(|driver| driver.join().expect("the driver"));
        operations
    });
    world.check_len(&operations);
    operations.extend(world.end());
    // ORDER: Relaxed - a count.
    TAKEOVERS.fetch_add(world.engine().stats().takeovers, Ordering::Relaxed);
    operations.append(&mut world.log.lock().expect("a log"));
    let count = world.next.load(Ordering::Relaxed).min(scenario.timers);
    operations.retain(|operation| operation.id < count);
    begin_collections(&mut operations, scenario.manual.is_some());
    assert_eq!(Arc::strong_count(&world), 1, "seed {:#x}: a payload leaks", scenario.seed);
    operations
}

/// Gives each collection that was recorded without a begin the earliest time at which its timer was
/// ever due.
fn begin_collections(operations: &mut [Operation<Call>], is_manual: bool) {
    let mut earliest = vec![(0, u64::MAX); operations.len()];
    for operation in operations.iter() {
        let (begin, due) = &mut earliest[operation.id as usize];
        match operation.call {
            Call::Schedule(delay, Ok(())) => {
                *begin = operation.begin;
                *due = (*due).min(operation.from_ns.saturating_add(delay));
            }
            Call::Reset(delay, Ok(())) => {
                *due = (*due).min(operation.from_ns.saturating_add(delay));
            }
            _ => {}
        }
    }
    let collections = operations.iter_mut().filter(|it| it.call == Call::Collect && it.begin == 0);
    for it in collections {
        let (begin, due) = earliest[it.id as usize];
        it.begin = if is_manual { begin } else { begin.max(due) }.min(it.end);
    }
}

/// Runs a payload, which the handler began to take out of its batch at `before`, as the task of a
/// timer.
///
/// # Panics
/// The scenario says so.
fn run(token: Token, before: Stamp) {
    let after = token.world.timeline.after();
    let Token { id, ref world } = token;
    let recorder = &mut Recorder::new(&world.timeline, CALLBACK);
    // A turn that takes a shard over hands over what another one has collected. Where the begin is
    // not known, the recorder works it out from the deadlines.
    let turn = world.timeline.turn_began().filter(|_| world.scenario.takeover.is_none());
    let collected = Stamp { at: turn.unwrap_or(0), clock_ns: 0 };
    recorder.push(id, collected, after, Call::Collect);
    recorder.push(id, before, after, Call::Fire);
    if world.fault == Some(Fault::FireTwice) && faults::is_unlucky(id) {
        let now = world.timeline.after();
        recorder.push(id, before, now, Call::Fire);
    }
    let scenario = &world.scenario;
    let random = &mut Random::of_thread(scenario.seed, 1_000 + u64::from(id));
    let mut is_one_of = |times: u64| times > 0 && random.once_in(times);
    let (mischief, slow) = (is_one_of(scenario.mischief), is_one_of(scenario.slow));
    let panics = is_one_of(scenario.panics);
    if mischief {
        (0..=random.below(2)).for_each(|_| world.act(recorder, random, false));
    }
    world.log.lock().expect("a log").append(&mut recorder.operations);
    world.note_end(id);
    if slow {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(100 + random.below(200)) {
            std::hint::spin_loop();
        }
    }
    if panics {
        // Without the hook, which would print it.
        panic::resume_unwind(Box::new("a task that panics"));
    }
}

// === impl World ===

impl World {
    fn new(scenario: Scenario, fault: Option<Fault>) -> World {
        let timeline = Arc::new(Timeline::new(scenario.manual.clone()));
        let same = timeline.clone();
        let handler = move |mut batch: Batch<'_, Token>| {
            loop {
                let before = same.before();
                let Some(token) = batch.next() else { break };
                run(token, before);
            }
        };
        let engine = scenario.builder().build_with_handler(handler).expect("an engine");
        World {
            timeline,
            fault,
            log: Mutex::default(),
            engine: engine.into(),
            slots: (0..scenario.timers).map(|_| Slot::default()).collect(),
            next: AtomicU32::new(0),
            returned: Mutex::default(),
            scenario,
        }
    }

    fn engine(&self) -> &Engine<Token> {
        self.engine.get().expect("it was built with the world")
    }

    /// The program of a thread.
    fn work(self: &Arc<World>, thread: u64) -> Vec<Operation<Call>> {
        let recorder = &mut Recorder::new(&self.timeline, thread as u32);
        let random = &mut Random::of_thread(self.scenario.seed, thread);
        let stops_at = (self.scenario.stops && thread < 2).then(|| random.below(20));
        for step in 0..self.scenario.steps {
            if stops_at == Some(step) {
                let limit = random.once_in(2).then(|| Duration::from_micros(random.below(50)));
                self.stop(recorder, limit);
            }
            if self.timeline.is_manual() && random.once_in(4) {
                let shard = random.below(self.scenario.shards as u64) as usize;
                // The engine may have stopped.
                let _ = self.timeline.turning(|| match self.scenario.takeover {
                    Some(_) => self.engine().take_over(shard).map(drop),
                    None => self.engine().turn(shard).map(drop),
                });
            }
            self.act(recorder, random, true);
        }
        std::mem::take(&mut recorder.operations)
    }

    /// One operation on one timer.
    fn act(
        self: &Arc<World>,
        recorder: &mut Recorder<'_, Call>,
        random: &mut Random,
        may_aim: bool,
    ) {
        // ORDER: Relaxed - a number that is not there yet is not chosen.
        let known = self.next.load(Ordering::Relaxed).min(self.scenario.timers);
        if known == 0 || random.once_in(3) {
            // Some are due together, so that a batch has several.
            let count = if random.once_in(4) { 3 } else { 1 };
            let delay = self.scenario.delay(random);
            return (0..count).for_each(|_| self.schedule(recorder, delay, random));
        }
        let id = random.below(known.into()) as u32;
        if may_aim && random.once_in(2) {
            // ORDER: Relaxed - a hint.
            let due_at = self.slots[id as usize].due_at.load(Ordering::Relaxed);
            self.timeline.wait_near(due_at, random);
        }
        match random.below(6) {
            0 | 1 => self.look(recorder, id, random),
            2 | 3 => self.reset(recorder, id, random),
            _ => self.end_handle(recorder, id, random),
        }
    }

    fn schedule(
        self: &Arc<World>,
        recorder: &mut Recorder<'_, Call>,
        delay: Duration,
        random: &mut Random,
    ) {
        // ORDER: Relaxed - the numbers differ.
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(slot) = self.slots.get(id as usize) else { return };
        let when = self.when(id, delay, random);
        self.note_deadline(id, delay);
        let token = Token { id, world: self.clone() };
        let describe = |reason: Option<ScheduleReason>| {
            let result = match reason {
                None => Ok(()),
                Some(ScheduleReason::Stopped) => Err(Refusal::Stopped),
                Some(other) => panic!("{other:?}"),
            };
            Call::Schedule(delay.as_nanos() as u64, result)
        };
        if random.once_in(8) {
            let call = || self.engine().schedule_detached(when, token);
            let _ = recorder.record(id, call, |it| describe(it.as_ref().err().map(|e| e.reason())));
            return;
        }
        let call = || self.engine().schedule(when, token);
        let result =
            recorder.record(id, call, |it| describe(it.as_ref().err().map(|e| e.reason())));
        *slot.handle.write().expect("a slot") = result.ok();
    }

    /// When a timer of that delay is due, with a slack now and then.
    fn when(&self, id: u32, delay: Duration, random: &mut Random) -> When {
        let when = When::after(faults::delay(id, delay, self.fault));
        if random.once_in(4) { when.slack(self.scenario.tick * 3) } else { when }
    }

    fn note_deadline(&self, id: u32, delay: Duration) {
        let slot = &self.slots[id as usize];
        let due_at = self.timeline.at().saturating_add(delay.as_nanos() as u64);
        // ORDER: Relaxed - a hint; and the drain begins after the threads have ended.
        slot.due_at.store(due_at, Ordering::Relaxed);
        slot.is_short.store(Scenario::is_short(delay), Ordering::Relaxed);
    }

    /// A timer is over.
    fn note_end(&self, id: u32) {
        // ORDER: Relaxed - the drain looks again and again.
        self.slots[id as usize].is_over.store(true, Ordering::Relaxed);
    }

    fn look(&self, recorder: &mut Recorder<'_, Call>, id: u32, random: &mut Random) {
        let Ok(slot) = self.slots[id as usize].handle.try_read() else { return };
        let Some(handle) = &*slot else { return };
        let is_now = random.once_in(2);
        for _ in 0..=random.below(3) {
            let call = || faults::state(handle, self.fault, is_now);
            recorder.record(id, call, |state| Call::State(seen(*state)));
        }
    }

    fn reset(&self, recorder: &mut Recorder<'_, Call>, id: u32, random: &mut Random) {
        let Ok(mut slot) = self.slots[id as usize].handle.try_write() else { return };
        let Some(handle) = &mut *slot else { return };
        let delay = self.scenario.delay(random);
        let when = self.when(id, delay, random);
        let call = || faults::reset(handle, when, self.fault);
        let describe = |result: &Result<(), ResetError>| {
            Call::Reset(delay.as_nanos() as u64, result.map_err(refusal))
        };
        if recorder.record(id, call, describe).is_ok() {
            self.note_deadline(id, delay);
        }
    }

    /// Cancels a timer, takes its payload, or drops its handle.
    fn end_handle(&self, recorder: &mut Recorder<'_, Call>, id: u32, random: &mut Random) {
        let Ok(mut slot) = self.slots[id as usize].handle.try_write() else { return };
        let Some(handle) = slot.take() else { return };
        let is_over = match random.below(4) {
            0 => {
                recorder.record(id, || drop(handle), |()| Call::Detach);
                false
            }
            1 => recorder.record(id, || handle.take(), |it| Call::Take(it.is_some())).is_some(),
            _ => recorder.record(id, || faults::cancel(handle, self.fault), |it| Call::Cancel(*it)),
        };
        if is_over {
            self.note_end(id);
        }
    }

    /// Stops the engine, with or without a limit of time.
    fn stop(&self, recorder: &mut Recorder<'_, Call>, limit: Option<Duration>) {
        let before = self.timeline.before();
        let (tokens, running) = match limit {
            None => (self.engine().stop().expect("from outside"), 0),
            Some(limit) => {
                let stopped = self.engine().stop_within(limit).expect("from outside");
                (stopped.returned, stopped.running)
            }
        };
        let after = self.timeline.after();
        let mut returned: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        match self.fault {
            Some(Fault::StopThatForgets) => drop(returned.pop()),
            Some(Fault::StopThatRepeats) => {
                let first = &mut *self.returned.lock().expect("a number");
                let again = first.or(returned.first().copied());
                returned.extend(first.filter(|id| !returned.contains(id)));
                *first = again;
            }
            _ => {}
        }
        for id in 0..self.scenario.timers {
            let is_returned = returned.contains(&id);
            recorder.push(id, before, after, Call::Close);
            let call = Call::Return { is_returned, gave_up: running > 0 };
            recorder.push(id, before, after, call);
        }
    }

    /// Waits until no timer is left that is due soon.
    fn drain(&self) -> Vec<Operation<Call>> {
        let recorder = &mut Recorder::new(&self.timeline, 0);
        let is_lost = |id| self.fault == Some(Fault::LostTimer) && faults::is_unlucky(id);
        let is_waiting = |(id, slot): (u32, &Slot)| {
            // ORDER: Relaxed - the loop looks again and again.
            let is_over = slot.is_over.load(Ordering::Relaxed) || is_lost(id);
            slot.is_short.load(Ordering::Relaxed) && !is_over
        };
        let begin = Instant::now();
        let goes_on = || !self.engine().is_stopped() && begin.elapsed() < self.scenario.patience;
        while goes_on() && (0..).zip(&self.slots).any(is_waiting) {
            thread::sleep(Duration::from_micros(20));
        }
        if self.engine().is_stopped() {
            return Vec::new();
        }
        let now = self.timeline.after();
        (0..self.scenario.timers).for_each(|id| recorder.push(id, now, now, Call::Quiet));
        std::mem::take(&mut recorder.operations)
    }

    /// Compares the number of pending timers with the operations, if no thread is inside a call.
    fn check_len(&self, operations: &[Operation<Call>]) {
        if !self.timeline.is_manual() || self.engine().is_stopped() || self.fault.is_some() {
            return;
        }
        let log = self.log.lock().expect("a log");
        let all = || operations.iter().chain(&*log);
        let count = |is_so: fn(&Call) -> bool| all().filter(|it| is_so(&it.call)).count();
        let begun = count(|call| matches!(call, Call::Schedule(_, Ok(()))));
        let ended = count(|call| matches!(call, Call::Cancel(true) | Call::Take(true)));
        let fired = count(|call| *call == Call::Fire);
        let len = self.engine().len();
        assert_eq!(len, begun - ended - fired, "seed {:#x}: len", self.scenario.seed);
    }

    /// Stops the engine and ends all handles.
    fn end(self: &Arc<World>) -> Vec<Operation<Call>> {
        let recorder = &mut Recorder::new(&self.timeline, 0);
        let random = &mut Random::of_thread(self.scenario.seed, u64::MAX - 1);
        self.stop(recorder, None);
        for id in 0..self.scenario.timers {
            self.look(recorder, id, random);
            self.reset(recorder, id, random);
            self.end_handle(recorder, id, random);
            let now: Stamp = self.timeline.after();
            recorder.push(id, now, now, Call::End);
        }
        std::mem::take(&mut recorder.operations)
    }
}

fn seen(state: tickless::State) -> Seen {
    match state {
        tickless::State::Pending => Seen::Pending,
        tickless::State::Fired => Seen::Fired,
        tickless::State::Stopped => Seen::Stopped,
        other => panic!("{other:?}"),
    }
}

fn refusal(error: ResetError) -> Refusal {
    match error {
        ResetError::TooLate => Refusal::TooLate,
        ResetError::Stopped => Refusal::Stopped,
        other => panic!("{other:?}"),
    }
}
