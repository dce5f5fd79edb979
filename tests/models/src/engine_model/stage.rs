//! An engine under test, the handles that there are, and the handler.
//!
//! Everything here writes down what happened and asserts nothing: see `log`.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tickless::local::Geometry;
use tickless::{Batch, Builder, Engine, Handle, ManualClock, ScheduleReason, StopError, TurnError};

use super::case::{By, Call, Config, Manner, Task, Way, delay};
use super::log::{Event, Log, Scheduled, Token};

/// An engine and what surrounds it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) engine: Engine<Token>,
    pub(crate) clock: ManualClock,
    /// The instant at which the clock stood at zero, for this engine.
    pub(crate) zero: Instant,
    pub(crate) geometry: Geometry,
    pub(crate) config: Config,
    /// The size of a share, unless it is the usual one.
    pub(crate) share: Option<usize>,
    pub(crate) log: Arc<Log>,
    /// Every handle that was not used up, also those of engines before this one.
    handles: Mutex<Vec<Held>>,
    manner: Mutex<Manner>,
}

/// A handle, and the number of its timer.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) number: usize,
    pub(crate) handle: Handle<Token>,
}

/// What panicking tasks and handlers throw.
struct Injected;

// === impl Stage ===

impl Stage {
    pub(crate) fn new(
        config: Config,
        share: Option<usize>,
        clock: &ManualClock,
        log: &Arc<Log>,
    ) -> Arc<Stage> {
        let (slots, reach) = config.shape();
        Arc::new_cyclic(|stage: &Weak<Stage>| {
            let builder = Builder::new().slots(slots).reach(reach).shards(config.shards());
            let builder = builder.tick(Duration::from_nanos(config.tick_ns())).manual_clock(clock);
            let builder = match config.max_pending() {
                Some(max) => builder.max_pending(max),
                None => builder,
            };
            let builder = match share {
                Some(share) => builder.share(share),
                None => builder,
            };
            let hooks_log = log.clone();
            let hook = move |shard| hooks_log.add(Event::Rang { shard });
            let builder = if config.hook { builder.on_earlier(hook) } else { builder };
            let stage = stage.clone();
            let handler = move |batch: Batch<'_, Token>| {
                let stage = stage.upgrade().expect("turns are run by those who have the stage");
                stage.fire(batch);
            };
            let engine = builder.build_with_handler(handler).expect("the configuration is valid");
            Stage {
                zero: engine.now() - clock.elapsed(),
                engine,
                clock: clock.clone(),
                geometry: Geometry::new(slots, reach).expect("the shapes are valid"),
                config,
                share,
                log: log.clone(),
                handles: Mutex::default(),
                manner: Mutex::new(Manner::TakesAll),
            }
        })
    }

    pub(crate) fn now_ns(&self) -> u64 {
        ns(self.clock.elapsed())
    }

    /// `at` in nanoseconds by the clock; `u64::MAX`: never.
    pub(crate) fn resolve_ns(&self, at: super::case::At) -> u64 {
        at.resolve_ns(&self.geometry, self.config.tick_ns(), self.now_ns())
    }

    pub(crate) fn handles(&self) -> MutexGuard<'_, Vec<Held>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_manner(&self, manner: Manner) {
        *self.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }

    pub(crate) fn call(&self, call: Call) {
        match call {
            Call::Schedule { at, by, owned, task } => {
                self.schedule(self.resolve_ns(at), by, owned, self.log.token(task));
            }
            Call::Cancel { pick, way } => {
                if let Some(held) = self.pick(pick) {
                    self.cancel(held, way);
                }
            }
            Call::Reset { pick, at, by } => {
                if let Some(held) = self.pick(pick) {
                    self.reset(held, self.resolve_ns(at), by);
                }
            }
            Call::Detach { pick } => drop(self.pick(pick)),
            Call::Bind { shard } => {
                self.engine.bind_thread(usize::from(shard) % self.engine.shards()).unwrap();
            }
        }
    }

    pub(crate) fn schedule(&self, at_ns: u64, by: By, owned: bool, token: Token) {
        let (engine, now_ns, number) = (&self.engine, self.now_ns(), token.number);
        let asked_ns = asked_ns(at_ns, by, now_ns);
        let outcome = match by {
            By::Instant => engine.schedule(self.instant(at_ns), token).map(Some),
            By::Delay if owned => engine.schedule(delay_ns(asked_ns, now_ns), token).map(Some),
            By::Delay => engine.schedule_detached(delay_ns(asked_ns, now_ns), token).map(|()| None),
        };
        let (handle, back) = match outcome {
            Ok(handle) => (handle, None),
            Err(error) => (None, Some((error.reason(), error.into_payload()))),
        };
        // A handle that nobody wants is dropped: the timer fires without it.
        let handle = handle.filter(|_| owned);
        let outcome = match &back {
            None => Scheduled::Done,
            Some((ScheduleReason::Full, token)) => Scheduled::Full { back: token.number },
            Some((ScheduleReason::Stopped, token)) => Scheduled::Stopped { back: token.number },
            Some((reason, _)) => panic!("a reason that the model does not know: {reason}"),
        };
        self.log.add(Event::Scheduled { number, asked_ns, now_ns, outcome });
        self.handles().extend(handle.map(|handle| Held { number, handle }));
    }

    pub(crate) fn cancel(&self, Held { number, handle }: Held, way: Way) {
        let back = match way {
            Way::Cancel => {
                let done = handle.cancel();
                return self.log.add(Event::Cancelled { number, done, back: None });
            }
            Way::Guard => {
                let was_pending = handle.state() == tickless::State::Pending;
                drop(handle.cancel_on_drop());
                return self.log.add(Event::Cancelled { number, done: was_pending, back: None });
            }
            Way::Take => handle.take(),
        };
        let number_back = back.as_ref().map(|token| token.number);
        self.log.add(Event::Cancelled { number, done: back.is_some(), back: number_back });
    }

    /// Takes a handle out of those that there are.
    pub(crate) fn pick(&self, pick: u16) -> Option<Held> {
        let mut handles = self.handles();
        let at = usize::from(pick).checked_rem(handles.len())?;
        Some(handles.swap_remove(at))
    }

    fn reset(&self, Held { number, mut handle }: Held, at_ns: u64, by: By) {
        let now_ns = self.now_ns();
        let asked_ns = asked_ns(at_ns, by, now_ns);
        let outcome = match by {
            By::Delay => handle.reset(delay_ns(asked_ns, now_ns)),
            By::Instant => handle.reset(self.instant(at_ns)),
        };
        // No engine stops in the midst of a reset here.
        let moved = outcome.is_ok();
        self.log.add(Event::Reset { number, asked_ns, now_ns, moved });
        self.handles().push(Held { number, handle });
    }

    /// The handler.
    fn fire(&self, mut batch: Batch<'_, Token>) {
        self.log.add(Event::Began { left: batch.len(), now_ns: self.now_ns() });
        let most = match &mut *self.manner.lock().unwrap_or_else(PoisonError::into_inner) {
            Manner::TakesAll | Manner::Panics(0) => usize::MAX,
            Manner::Leaves(count) => usize::from(*count),
            Manner::Panics(times) => {
                *times -= 1;
                self.log.add(Event::Left { all: false });
                throw()
            }
        };
        for _ in 0..most {
            let Some(mut due) = batch.next_due() else { return };
            let (number, deadline) = (due.payload.number, due.deadline);
            self.log.add(Event::Handed { number, deadline });
            if let Some(task) = due.payload.task.take() {
                self.run(*task);
            }
        }
        self.log.add(Event::Left { all: true });
    }

    fn run(&self, task: Task) {
        if let Some(call) = task.call() {
            return self.call(call);
        }
        match task {
            Task::Clock { by_ns } => {
                self.clock.advance(Duration::from_nanos(by_ns.into()));
                self.log.add(Event::MovedClock);
            }
            Task::Panic => {
                self.log.add(Event::Panics);
                throw()
            }
            Task::Meddle => self.meddle(),
            _ => {}
        }
    }

    fn meddle(&self) {
        let engine = &self.engine;
        let refused = engine.turn(0) == Err(TurnError::InsideTask)
            && engine.turn_at_most(usize::MAX, 0) == Err(TurnError::InsideTask)
            && engine.advance(Duration::MAX) == Err(TurnError::InsideTask)
            && matches!(engine.stop(), Err(StopError::InsideTask));
        self.log.add(Event::Meddled { refused });
    }

    /// The instant of `at_ns`. What is not after the start is told by an instant before it.
    fn instant(&self, at_ns: u64) -> Instant {
        match at_ns {
            0 => self.zero.checked_sub(Duration::from_nanos(1)).unwrap_or(self.zero),
            _ => self.zero + Duration::from_nanos(at_ns),
        }
    }
}

/// What is asked for in the end: a delay cannot be less than none.
fn asked_ns(at_ns: u64, by: By, now_ns: u64) -> u64 {
    match by {
        By::Delay => at_ns.max(now_ns),
        By::Instant => at_ns,
    }
}

fn delay_ns(asked_ns: u64, now_ns: u64) -> Duration {
    delay(if asked_ns == u64::MAX { u64::MAX } else { asked_ns - now_ns })
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("clocks stop before that")
}

/// Unlike `panic!` this asks no hook, and fuzzers end the process in theirs.
fn throw() -> ! {
    resume_unwind(Box::new(Injected))
}
