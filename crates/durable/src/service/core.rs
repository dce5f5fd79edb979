//! What the threads of a service share: its state under a lock, the engine, and the wall clock.
//!
//! *Owner*: any thread. The lock is held for short; the store is used without it, by the writer
//! alone (`writer.rs`). No foreign code runs under it: promises are kept and handlers called
//! without.
//!
//! Timers go by the wall clock, and the engine by the monotonic one. So three things follow a clock
//! that is set:
//! - A worker that is about to begin with a timer looks at the wall clock. If that was set back,
//!   the timer is armed for the rest (`worker.rs`).
//! - An alarm by the wall clock stands at the time of the first timer, so that it rings at once if
//!   the clock is set forward past that.
//! - When it rings, what is due by the wall clock fires, whenever it was armed for. If the two
//!   clocks have moved against each other, all other timers are armed anew.
//!
//! *Tested by*: `tests/durable/oracle`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use tickless::wall::{WallTimer, WallTimers};
use tickless::{Engine, Handle, When};

use crate::error::{Error, ScheduleReason, StoreError};
use crate::events;
use crate::foreign;
use crate::position::{Position, ms_passed, time_of};
use crate::promise::{Hurry, Promise};
use crate::record::{Key, Record};
use crate::store::Op;

use super::config::{Config, LINGERS, Share};
use super::numbers::Numbers;
use super::pauses::is_paused;
use super::pending::{Pending, Then};
use super::stats::Stats;
use super::suspects::Alone;
use super::unseen::Unseen;
use super::window::Window;

/// How often the alarm by the wall clock rings at most, while timers fire all the time.
const GRAIN: Duration = Duration::from_millis(100);

/// How far the two clocks may move against each other before all timers are armed anew.
const DRIFT: Duration = Duration::from_millis(1);

/// How far the clocks of two processes may be apart, so that a timer which has begun in one was
/// not yet due at the opening in the other.
const APART_MS: u64 = 1000;

/// See the file's header.
pub(crate) struct Core {
    pub(super) config: Config,
    pub(super) engine: Engine,
    pub(super) wall: WallTimers,
    /// An instant to which the engine's time is compared.
    base: Instant,
    /// When the service was opened.
    opened_ms: u64,
    state: Mutex<State>,
    /// How late handlers begin, and how long they take, where somebody wants to know.
    #[cfg(feature = "metrics")]
    pub(super) histograms: std::sync::OnceLock<[::metrics::Histogram; 2]>,
    /// The writer sleeps by it, and the workers by the other one.
    pub(super) writer_bell: Condvar,
    pub(super) worker_bell: Condvar,
    /// Rings when a worker ends.
    pub(super) end_bell: Condvar,
}

pub(super) struct State {
    pub(super) numbers: Numbers,
    pub(super) pending: Pending,
    pub(super) window: Window<Armed>,
    /// When the alarm rings.
    alarm: Option<(u64, WallTimer)>,
    /// By how much the wall clock was ahead of the engine's when timers were armed.
    offset: Offset,
    pub(super) failure: Option<StoreError>,
    /// How keys begin whose timers do not fire.
    pub(super) pauses: Vec<Key>,
    /// The timers whose notes the store still has although this process goes on.
    pub(super) notes: Vec<Record>,
    /// Nothing is taken any more.
    pub(super) is_closed: bool,
    /// The writer may end when it has written all.
    pub(super) is_ending: bool,
    /// How many workers there are.
    pub(super) workers: usize,
    /// Since when handlers run, by the numbers of their timers.
    pub(super) running: BTreeMap<u64, Running>,
    /// Until when an end waits for them at most.
    pub(super) end_by: Option<Instant>,
    pub(super) stats: Stats,
}

/// Ends a handler from outside.
pub(super) type Abort = Box<dyn FnOnce() + Send>;

/// A handler that runs.
pub(super) struct Running {
    pub(super) since: Instant,
    /// Of a task alone: a thread cannot be ended.
    pub(super) abort: Option<Abort>,
}

/// A timer of the engine's, which is cancelled when it is dropped.
pub(super) struct Armed(Option<Handle>);

/// The difference between two clocks.
#[derive(Clone, Copy, Debug, Default)]
struct Offset {
    wall: Duration,
    engine: Duration,
}

thread_local! {
    /// The service whose handler or callback this thread runs, or whose writer it is.
    static SERVED: Cell<*const Core> = const { Cell::new(std::ptr::null()) };
}

// === impl Core ===

impl Core {
    pub(super) fn new(
        config: Config,
        engine: Engine,
        wall: WallTimers,
        numbers: Numbers,
        opened_ms: u64,
        pauses: Vec<Key>,
    ) -> Arc<Core> {
        let base = engine.now();
        let core = Core {
            state: Mutex::new(State {
                numbers,
                pending: Pending::default(),
                window: Window::new(
                    config.window,
                    config.tasks.unwrap_or(config.workers),
                    // Services of a builder's copies do not tell each other when to look again.
                    config.share.as_ref().map_or_else(Alone::default, |_| config.alone.clone()),
                ),
                alarm: None,
                offset: Offset::default(),
                failure: None,
                pauses,
                notes: Vec::new(),
                is_closed: false,
                is_ending: false,
                workers: 0,
                running: BTreeMap::new(),
                end_by: None,
                stats: Stats::default(),
            }),
            config,
            engine,
            wall,
            base,
            opened_ms,
            #[cfg(feature = "metrics")]
            histograms: std::sync::OnceLock::new(),
            writer_bell: Condvar::new(),
            worker_bell: Condvar::new(),
            end_bell: Condvar::new(),
        };
        core.state().offset = core.offset();
        Arc::new(core)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock, so a panic there is a fault of this crate.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> SystemTime {
        self.config.share.as_deref().map_or_else(|| self.wall.now(), Share::now)
    }

    pub(super) fn now_ms(&self) -> u64 {
        ms_passed(self.now())
    }

    /// Whether a timer that is due then cannot wait for others to be written with.
    pub(super) fn is_soon(&self, due_ms: u64) -> bool {
        let wait = LINGERS * self.config.linger;
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        due_ms <= self.now_ms().saturating_add(wait_ms)
    }

    // --- arming ---

    /// Admits a timer of the store to the window, if it belongs there.
    pub(super) fn admit(self: &Arc<Core>, state: &mut State, record: Arc<Record>) {
        let position = record.position;
        let is_out = state.pending.voids(&record) || is_paused(&state.pauses, &record);
        if is_out || state.window.has(position) {
            return;
        }
        let now_ms = self.now_ms();
        if let Some(until_ms) = self.is_beyond(position, now_ms) {
            state.window.leave(position, Some(until_ms));
        } else if state.window.make_room(position) {
            // What is due needs no engine, and so keeps its order.
            let is_due = position.due_ms <= now_ms;
            let timer = if is_due { Armed(None) } else { self.arm(position) };
            state.window.admit(record, timer);
            if is_due && state.window.fire(position) {
                self.worker_bell.notify_one();
            }
        }
    }

    /// Whether a timer is too far away for the window, and when to look for it again.
    pub(super) fn is_beyond(&self, position: Position, now_ms: u64) -> Option<u64> {
        let span_ms = u64::try_from(self.config.span.as_millis()).unwrap_or(u64::MAX);
        let is_beyond = position.due_ms > now_ms.saturating_add(span_ms);
        is_beyond.then(|| position.due_ms - span_ms / 2)
    }

    pub(super) fn arm(self: &Arc<Core>, position: Position) -> Armed {
        let core = Arc::downgrade(self);
        let when = self.when(position);
        // A stopped engine fires nothing, and the store has the timer.
        Armed(self.engine.schedule(when, move || due(&core, position)).ok())
    }

    /// The time that is left by the wall clock. The engine rounds it up.
    fn when(&self, position: Position) -> When {
        let due = time_of(position.due_ms);
        let left = due.map(|due| due.duration_since(self.now()).unwrap_or(Duration::ZERO));
        When::after(left.unwrap_or(Duration::MAX))
    }

    // --- firing ---

    /// Whether an attempt of this timer may have begun before. One of another session has if it was
    /// due before that one's end, which is unknown: before this opening, or a little later, because
    /// clocks differ a little.
    pub(super) fn may_have_begun(&self, numbers: &Numbers, record: &Record) -> bool {
        let due_ms = record.position.due_ms.min(record.first_due_ms);
        let was_due = due_ms <= self.opened_ms.saturating_add(APART_MS);
        record.tried || (was_due && numbers.is_earlier(record.id()))
    }

    /// Whether an earlier process may have ended in this timer's handler.
    pub(super) fn is_suspect(&self, numbers: &Numbers, record: &Record) -> bool {
        let was_due = record.first_due_ms <= self.opened_ms;
        let is_suspect = record.crashes > 0 || (was_due && numbers.is_earlier(record.id()));
        is_suspect && self.config.crashes < u32::MAX
    }

    /// The engine finds a timer due.
    fn is_due(self: &Arc<Core>, position: Position) {
        let mut state = self.state();
        if state.failure.is_some() || state.is_closed {
            return;
        }
        // Whether it is due by the wall clock, the worker sees that begins with it.
        if state.window.fire(position) {
            drop(state);
            self.worker_bell.notify_one();
        }
    }

    /// The alarm rings: the first timer is due, or the clock was set, or it is time to look for
    /// more.
    pub(super) fn ring(self: &Arc<Core>) {
        let mut state = self.state();
        if let Some((_, alarm)) = state.alarm.take() {
            // It may not be the alarm that calls this.
            alarm.cancel();
        }
        if state.failure.is_some() || state.is_closed {
            return;
        }
        let (offset, now_ms) = (self.offset(), self.now_ms());
        // What was armed while the clock was set away, and was set back since, would come too late.
        while let Some(first) = state.window.first().filter(|first| first.due_ms <= now_ms) {
            state.window.fire(first);
            self.worker_bell.notify_one();
        }
        if offset.drift(state.offset) > DRIFT {
            state.offset = offset;
            for (position, waiting) in state.window.waiting() {
                waiting.timer = self.arm(*position);
            }
        }
        self.set_alarm(&mut state);
        drop(state);
        self.writer_bell.notify_one();
    }

    /// Sets the alarm to the first timer's time, if it is not set to an earlier one.
    pub(super) fn set_alarm(self: &Arc<Core>, state: &mut State) {
        let Some(next_ms) = state.window.next_ms() else { return };
        let now = self.now();
        let soonest = now.checked_add(GRAIN).map_or(u64::MAX, ms_passed);
        let next_ms = next_ms.max(soonest);
        if state.alarm.as_ref().is_some_and(|(at_ms, _)| *at_ms <= next_ms) {
            return;
        }
        let Some(mut time) = time_of(next_ms) else { return };
        if self.config.share.is_some() {
            // The alarm goes by this machine's clock, and is set anew when the shared one is read.
            time = self.wall.now() + time.duration_since(now).unwrap_or_default();
        }
        if let Some((_, alarm)) = state.alarm.take() {
            alarm.cancel();
        }
        let core = Arc::downgrade(self);
        let ring = move || core.upgrade().iter().for_each(Core::ring);
        state.alarm = self.wall.schedule(time, ring).ok().map(|alarm| (next_ms, alarm));
    }

    fn offset(&self) -> Offset {
        let wall = self.now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Offset { wall, engine: self.engine.now().saturating_duration_since(self.base) }
    }

    // --- who cannot wait for the end ---

    /// This thread is the service's writer, which cannot wait for its own end.
    pub(super) fn serve(&self) {
        SERVED.set(self);
    }

    /// Calls a handler or a callback, which cannot wait for an end that may wait for it.
    pub(super) fn served(&self, call: impl FnOnce()) {
        let before = SERVED.replace(self);
        call();
        SERVED.set(before);
    }

    /// Whether this thread runs a handler or a callback of the service, or is its writer.
    pub(super) fn is_served(&self) -> bool {
        SERVED.try_with(Cell::get).is_ok_and(|served| std::ptr::eq(served, self))
    }

    // --- failing and ending ---

    /// The store has failed: everybody who waits is told, and nothing fires any more.
    pub(super) fn fail(&self, error: &StoreError) {
        let (units, requests, is_first) = {
            let mut state = self.state();
            let is_first = state.failure.is_none();
            state.failure.get_or_insert_with(|| error.clone());
            if is_first {
                state.notes = state.window.notes();
            }
            state.window.clear();
            let units = state.pending.take(Duration::ZERO, usize::MAX);
            (units, std::mem::take(&mut state.pending.requests), is_first)
        };
        if is_first {
            events::failure(&self.config.thread_name, error);
        }
        self.abort_tasks();
        self.worker_bell.notify_all();
        self.end_bell.notify_all();
        units.into_iter().for_each(|unit| unit.then.fail(Error::Store(error.clone())));
        requests.into_iter().for_each(|request| request.fail(Error::Store(error.clone())));
        if is_first && let Some(tell) = &self.config.on_failure {
            self.served(|| drop(foreign::call(|| tell(error))));
        }
    }

    /// An end waits for handlers until then at most, also one that has begun.
    pub(crate) fn end_by(&self, until: Instant) {
        let mut state = self.state();
        state.end_by = Some(state.end_by.map_or(until, |before| before.min(until)));
        drop(state);
        self.end_bell.notify_all();
    }

    /// How many handlers run for longer than they may.
    pub(super) fn stuck(&self, state: &State) -> usize {
        let Some(limit) = self.config.handler_limit else { return 0 };
        state.running.values().filter(|running| running.since.elapsed() >= limit).count()
    }

    /// Ends the handlers that can be ended: their timers stay in the store.
    pub(super) fn abort_tasks(&self) {
        let mut state = self.state();
        let aborts = state.running.values_mut().filter_map(|running| running.abort.take());
        let aborts: Vec<Abort> = aborts.collect();
        drop(state);
        aborts.into_iter().for_each(|abort| abort());
    }

    /// Nothing new is taken, and nothing fires any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        // Their handlers do not run, after all.
        for record in state.window.take_back_notes() {
            let from = record.position;
            state.pending.outcome(Op::Move { from, to: record }, Then::Leave(from));
        }
        drop(state);
        self.worker_bell.notify_all();
        self.writer_bell.notify_one();
    }
}

impl Hurry for Core {
    fn hurry(&self, number: Option<u64>) {
        self.state().pending.hurry(number);
        self.writer_bell.notify_one();
    }
}

fn due(core: &Weak<Core>, position: Position) {
    if let Some(core) = core.upgrade() {
        core.is_due(position);
    }
}

// === impl State ===

impl Core {
    /// These are the pauses now. What was paused and is not any more has to be read.
    pub(super) fn set_pauses(&self, pauses: Vec<Key>) {
        let mut state = self.state();
        let is_over = state.pauses.iter().any(|before| !pauses.contains(before));
        state.pauses = pauses;
        if is_over {
            state.window.read_again();
        }
        drop(state);
        self.writer_bell.notify_one();
    }
}

impl State {
    /// A batch is written. What was told meanwhile comes back.
    pub(super) fn end_writing(&mut self) -> Unseen {
        self.pending.is_writing = false;
        self.stats.batches += 1;
        self.window.told.end_writing()
    }

    /// Why nothing can be scheduled, if that is so.
    pub(super) fn refusal(&self) -> Option<ScheduleReason> {
        let failure = self.failure.clone().map(ScheduleReason::Store);
        failure.or(self.is_closed.then_some(ScheduleReason::Stopped))
    }

    /// The same for other changes, whose promise is then not kept.
    pub(super) fn refuse<T>(&self, promise: Promise<T>) -> Result<Promise<T>, Refused<T>> {
        match self.refusal() {
            None => Ok(promise),
            Some(ScheduleReason::Store(error)) => Err(Refused(promise, Error::Store(error))),
            Some(_) => Err(Refused(promise, Error::Stopped)),
        }
    }
}

/// A promise that will not be kept. It is broken after the lock is released.
pub(super) struct Refused<T>(Promise<T>, Error);

impl<T> Refused<T> {
    pub(super) fn tell(self) {
        self.0.keep(Err(self.1));
    }
}

// === impl Running, Armed, Offset ===

impl Running {
    pub(super) fn begin() -> Running {
        Running { since: Instant::now(), abort: None }
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.cancel();
        }
    }
}

impl Offset {
    /// By how much the clocks have moved against each other since.
    fn drift(self, since: Offset) -> Duration {
        (self.wall + since.engine).abs_diff(since.wall + self.engine)
    }
}
