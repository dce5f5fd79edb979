//! What stands ready before operations are counted: a warm engine, and timers to work on.
//!
//! Engines are driven by hand, so that nothing but the operation runs. What they take memory for
//! once (levels, queues, magazines) is there, and the buckets that are used are armed.
//!
//! *Invariants*: the engine's own counts tell afterwards that each operation was what its name
//! says; a stage that ends otherwise panics, and the gate fails.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tickless::{Driver, Engine, Handle, ManualClock, Stats, Turn};

use crate::OPERATIONS;
use crate::timers::Timers;
use bench_support::delays::Delays;

/// An engine, timers of it, and times for operations on them.
pub(crate) struct Stage<E: Timers> {
    clock: ManualClock,
    engine: E,
    /// One for each operation.
    delays: Vec<Duration>,
    /// Timers for operations to work on, or to come from them.
    handles: VecDeque<Handle<E::Payload>>,
    /// Pending, and nothing to operations.
    others: Vec<Handle<E::Payload>>,
    before: Stats,
}

/// Delays from one time to another, in milliseconds.
pub(crate) type Range = (u64, u64);

/// Timers of the lowest level, in 31 buckets; after `FIRED_MS` all of them are due.
const SOON_MS: Range = (1, 31);
const FIRED_MS: u64 = 40;
/// Timers of one bucket of the second level, and when it opens: before any of them is due.
const COARSE_MS: Range = (65, 95);
const COARSE_OPENS_MS: u64 = 64;
/// Timers of the third level. Each range lies after the one before.
const EARLY_MS: Range = (5_000, 9_000);
const TIMEOUTS_MS: Range = (10_000, 30_000);
const LATE_MS: Range = (30_000, 60_000);
const LATER_MS: Range = (60_000, 90_000);

/// At a multiple of this, buckets of the lowest three levels open.
const ROUND_MS: u64 = 32 * 32 * 32;

/// One shard is used. The room in an engine's depots grows with its shards, and two of them make
/// enough for the seats that all operations of a stage leave.
const SHARDS: usize = 2;

/// Threads at a time that use an engine, of four times as many: valgrind has 500.
const THREADS: usize = 250;

/// More seats than depots take from one of two shards, and fewer than are worth a sweep besides.
const DEPOT: usize = 4500;

/// Rounds after which an operation finds everything as it left it in the round before.
pub(crate) const ROUNDS: usize = 8;

// === impl Stage: before ===

impl<E: Timers> Stage<E> {
    /// Seats for all, and no timers on them.
    pub(crate) fn with_seats() -> Stage<E> {
        Stage::new().fill_and_cancel().ready(LATER_MS)
    }

    /// No seats, and free memory for all.
    pub(crate) fn with_memory() -> Stage<E> {
        Stage::new().arm(TIMEOUTS_MS).schedule_and_fire().ready(TIMEOUTS_MS)
    }

    /// No seats and no memory.
    pub(crate) fn with_nothing() -> Stage<E> {
        Stage::new().arm(TIMEOUTS_MS).ready(TIMEOUTS_MS)
    }

    /// Timers to cancel, on seats: their buckets open long before they are due.
    pub(crate) fn with_timers() -> Stage<E> {
        Stage::new().fill_and_cancel().fill(LATE_MS).ready(LATE_MS)
    }

    /// Timers to cancel, and nowhere to leave their seats; many threads have used the engine.
    pub(crate) fn with_threads() -> Stage<E> {
        let stage = Stage::<E>::new().fill(TIMEOUTS_MS);
        let engine = &stage.engine;
        for _ in 0..4 {
            thread::scope(|scope| {
                let (scheduled, has_scheduled) = channel();
                // They begin and end one after another, so that they leave the same each time.
                let threads = Vec::from_iter((0..THREADS).map(|_| {
                    let ((end, may_end), scheduled) = (channel::<()>(), scheduled.clone());
                    let thread = scope.spawn(move || {
                        engine.schedule_detached(Duration::from_millis(LATE_MS.0));
                        scheduled.send(()).expect("it is waited for");
                        let _ = may_end.recv();
                    });
                    has_scheduled.recv().expect("the thread tells");
                    (end, thread)
                }));
                for (end, thread) in threads {
                    drop(end);
                    thread.join().expect("the thread does not panic");
                }
            });
        }
        let to_fill = delays(TIMEOUTS_MS).into_iter().cycle().take(DEPOT);
        let fillers: Vec<Handle<E::Payload>> =
            to_fill.map(|delay| stage.engine.schedule(delay)).collect();
        assert!(fillers.into_iter().all(Handle::cancel));
        assert!(stage.engine.typed().stats().dead > 0, "the depot has room");
        stage.ready(TIMEOUTS_MS)
    }

    /// As `with_timers`, and later times for them.
    pub(crate) fn with_later_times() -> Stage<E> {
        Stage::new().fill_and_cancel().fill(LATE_MS).ready(LATER_MS)
    }

    /// As `with_timers`, and times for them before their buckets open; memory for all.
    pub(crate) fn with_earlier_times() -> Stage<E> {
        let stage = Stage::new().arm(EARLY_MS).fill_and_cancel().fill(LATE_MS);
        stage.schedule_and_fire().ready(EARLY_MS)
    }

    /// Timers of which the oldest makes way for a new one, again and again.
    pub(crate) fn with_requests() -> Stage<E> {
        Stage::new().requests()
    }

    /// As `with_requests`, by the system's clock.
    pub(crate) fn with_system_clock() -> Stage<E> {
        let engine =
            E::build(Engine::builder().driver(Driver::Caller).shards(SHARDS).exact_below(0));
        Stage::of(engine, ManualClock::new()).requests()
    }

    /// Timers without handles that are due.
    pub(crate) fn with_due() -> Stage<E> {
        let stage = Stage::new().schedule_and_fire();
        stage.schedule_all(SOON_MS);
        stage.after_ms(FIRED_MS).ready(SOON_MS)
    }

    /// Timers that are due, and their handles.
    pub(crate) fn with_owned_due() -> Stage<E> {
        Stage::new().schedule_and_fire().fill(SOON_MS).after_ms(FIRED_MS).ready(SOON_MS)
    }

    /// Timers in a bucket that opens, none of them due.
    pub(crate) fn with_coarse() -> Stage<E> {
        let stage = Stage::new().schedule_and_fire().coarse();
        assert_eq!(stage.turn().fired, 0);
        let stage = stage.after_ms(FIRED_MS);
        assert_eq!(stage.turn().fired, OPERATIONS);
        stage.coarse().ready(COARSE_MS)
    }

    /// Timers, and nothing to do about them.
    pub(crate) fn with_idle() -> Stage<E> {
        let stage = Stage::<E>::new().fill(TIMEOUTS_MS);
        while stage.turn().more {}
        stage.ready(TIMEOUTS_MS)
    }

    /// An engine that was never used.
    fn new() -> Stage<E> {
        let clock = ManualClock::new();
        let engine = E::build(Engine::builder().manual_clock(&clock).shards(SHARDS).exact_below(0));
        Stage::of(engine, clock)
    }

    fn of(engine: E, clock: ManualClock) -> Stage<E> {
        Stage {
            clock,
            engine,
            delays: Vec::new(),
            handles: VecDeque::with_capacity(OPERATIONS),
            others: Vec::new(),
            before: Stats::default(),
        }
    }

    fn schedule_all(&self, range: Range) {
        delays(range).into_iter().for_each(|delay| self.engine.schedule_detached(delay));
    }

    /// Schedules a timer for each operation.
    fn fill(mut self, range: Range) -> Stage<E> {
        self.handles.extend(delays(range).into_iter().map(|delay| self.engine.schedule(delay)));
        self
    }

    /// Schedules and fires a timer for each operation, round after round.
    fn schedule_and_fire(self) -> Stage<E> {
        for _ in 0..ROUNDS {
            self.schedule_all(SOON_MS);
            self.clock.advance(Duration::from_millis(FIRED_MS));
            assert_eq!(self.turn().fired, OPERATIONS);
        }
        self
    }

    /// Schedules and cancels a timer for each operation, round after round.
    fn fill_and_cancel(self) -> Stage<E> {
        let mut stage = self.fill(TIMEOUTS_MS);
        for _ in 0..ROUNDS {
            assert!(stage.handles.drain(..).all(Handle::cancel));
            stage = stage.fill(LATE_MS);
        }
        assert!(stage.handles.drain(..).all(Handle::cancel));
        stage
    }

    /// Timers that have made way for new ones for a while.
    fn requests(self) -> Stage<E> {
        let mut stage = self.fill(TIMEOUTS_MS).ready(TIMEOUTS_MS);
        (0..ROUNDS).for_each(|_| stage.replace());
        stage.ready(TIMEOUTS_MS)
    }

    /// Timers in a bucket of the second level, at the time at which it opens.
    fn coarse(self) -> Stage<E> {
        let begun_ms = self.clock.elapsed().as_millis() as u64 % ROUND_MS;
        let stage = self.after_ms(ROUND_MS - begun_ms);
        // After so long, a turn gives back what nobody has needed meanwhile: that is not counted.
        assert_eq!(stage.turn().fired, 0);
        stage.schedule_all(COARSE_MS);
        stage.after_ms(COARSE_OPENS_MS)
    }

    /// Sees to it that every bucket in a range is armed.
    fn arm(mut self, range: Range) -> Stage<E> {
        self.others.extend(delays(range).into_iter().map(|delay| self.engine.schedule(delay)));
        self
    }

    /// Later, with nothing done meanwhile.
    fn after_ms(self, ms: u64) -> Stage<E> {
        self.clock.advance(Duration::from_millis(ms));
        self
    }

    /// Ready: what is counted from here on is the operations' doing.
    fn ready(mut self, range: Range) -> Stage<E> {
        self.delays = delays(range);
        self.before = self.engine.typed().stats();
        self
    }
}

/// A delay for each operation.
pub(crate) fn delays((from_ms, to_ms): Range) -> Vec<Duration> {
    let mut delays = Delays::new(1);
    (0..OPERATIONS).map(|_| delays.between(from_ms, to_ms)).collect()
}

// === impl Stage: operations ===

impl<E: Timers> Stage<E> {
    /// Schedules timers and keeps their handles.
    #[inline]
    pub(crate) fn schedule(&mut self) {
        for &delay in &self.delays {
            self.handles.push_back(self.engine.schedule(delay));
        }
    }

    /// Cancels timers, the oldest first.
    #[inline]
    pub(crate) fn cancel(&mut self) {
        while let Some(oldest) = self.handles.pop_front() {
            black_box(oldest.cancel());
        }
    }

    /// Cancels the oldest timer and schedules a new one, again and again.
    #[inline]
    pub(crate) fn replace(&mut self) {
        for &delay in &self.delays {
            let oldest = self.handles.pop_front().expect("there is one for each operation");
            black_box(oldest.cancel());
            self.handles.push_back(self.engine.schedule(delay));
        }
    }

    /// Moves each timer to another time.
    #[inline]
    pub(crate) fn reset(&mut self) {
        for (handle, &delay) in self.handles.iter_mut().zip(&self.delays) {
            _ = black_box(handle.reset(delay));
        }
    }

    /// Runs one turn for all.
    #[inline]
    pub(crate) fn turn_once(&mut self) {
        black_box(self.turn());
    }

    /// Runs one turn for all, then schedules as many timers.
    #[inline]
    pub(crate) fn turn_and_schedule(&mut self) {
        black_box(self.turn());
        for &delay in &self.delays {
            self.engine.schedule_detached(delay);
        }
    }

    /// Runs turns.
    #[inline]
    pub(crate) fn turn_each(&mut self) {
        for _ in 0..OPERATIONS {
            black_box(self.turn());
        }
    }

    #[inline]
    fn turn(&self) -> Turn {
        self.engine.typed().turn(0).expect("the engine is driven by hand")
    }
}

// === impl Stage: after ===

impl<E: Timers> Stage<E> {
    /// Each operation scheduled on a seat.
    pub(crate) fn all_seated(self) {
        self.assert_counted(OPERATIONS, |stats| stats.scheduled);
        self.assert_counted(OPERATIONS, |stats| stats.seated);
    }

    /// Each operation scheduled, in an entry of its own.
    pub(crate) fn none_seated(self) {
        self.assert_counted(OPERATIONS, |stats| stats.scheduled);
        self.assert_counted(0, |stats| stats.seated);
    }

    /// Each operation cancelled, and nobody let go of a seat.
    pub(crate) fn all_cancelled(self) {
        self.assert_counted(OPERATIONS, |stats| stats.cancelled);
        self.assert_counted(0, |stats| stats.dead);
    }

    /// Each operation cancelled, and seats were let go of.
    pub(crate) fn all_let_go(self) {
        self.assert_counted(OPERATIONS, |stats| stats.cancelled);
        let dead = self.engine.typed().stats().dead - self.before.dead;
        assert!(dead > 0, "no seat was let go of");
    }

    /// Each operation cancelled and scheduled.
    pub(crate) fn all_replaced(self) {
        self.assert_counted(OPERATIONS, |stats| stats.scheduled);
        self.all_cancelled();
    }

    /// Each operation moved a timer in its entry.
    pub(crate) fn all_reset(self) {
        self.assert_counted(OPERATIONS, |stats| stats.reset);
        self.assert_counted(0, |stats| stats.dead);
    }

    /// Each operation fired.
    pub(crate) fn all_fired(self) {
        self.assert_counted(OPERATIONS, |stats| stats.fired);
        self.assert_counted(0, |stats| stats.cascaded);
    }

    /// Each operation fired, and scheduled in an entry of its own.
    pub(crate) fn all_rescheduled(self) {
        self.assert_counted(OPERATIONS, |stats| stats.scheduled);
        self.all_fired();
    }

    /// Each operation moved a timer a level down.
    pub(crate) fn all_cascaded(self) {
        self.assert_counted(OPERATIONS, |stats| stats.cascaded);
        self.assert_counted(0, |stats| stats.fired);
    }

    /// No operation found anything to do.
    pub(crate) fn none_busy(self) {
        self.assert_counted(0, |stats| stats.fired + stats.cascaded);
    }

    /// Asserts how much has been counted since the stage was ready.
    #[track_caller]
    fn assert_counted(&self, expected: usize, count: impl Fn(&Stats) -> u64) {
        let counted = count(&self.engine.typed().stats()) - count(&self.before);
        assert_eq!(counted, expected as u64, "the operations were not what they were meant to be");
    }
}
