//! A thing that is armed on an engine again and again: the common part of periodics, retries and
//! heartbeats.
//!
//! *Owner*: shared by reference count. While the thing waits for its timer, the engine holds one
//! reference, inside the payload ([`DueRun`]). The thing knows its engine by number and does not
//! keep it alive.
//!
//! *Invariants*
//! - Only the thread that holds or finishes the thing touches `kept`: see
//!   `crates/sync/src/protocol/hold.rs`. So the handle of the timer is stored before the thing
//!   becomes free.
//! - A closure of the user runs while the thing is held. No other closure of the same thing runs
//!   meanwhile.
//! - The engine's reference is never dropped silently: a payload that is dropped instead of run (by
//!   an engine that ends, or by a dispatcher that drops it) ends the thing.
//! - A thing that is over has neither a closure nor a timer. Its latch opens when they are gone.
//! - A panic of a closure propagates to the code that ran the task (the engine counts it), after
//!   all state here has been updated.
//!
//! *Tested by*: `tests/races/periodic/ends.rs`, `tests/races/periodic/races.rs`.

use std::fmt;
use std::mem::{self, ManuallyDrop};

use crate::dispatch::{Kind, Panics, Process, Runs, Task, contained};
use crate::engine::{Engine, EngineRef, Handle};
use crate::error::Refused;
use crate::protocol::hold::{Came, Decided, HoldWord, Released};
use crate::protocol::latch::Latch;
use crate::sync::{Arc, AtomicU64, Ordering, UnsafeCell};
use crate::time::Clock;
use crate::wait::{Ends, Sleeper, working_on};

use super::{End, StartError, StartReason};

/// The behaviour of a repeating thing.
pub(super) trait Body: Sized + Send + 'static {
    /// State that any thread may read at any time.
    type Shared: Send + Sync + 'static;

    /// The payload of the engine that it is armed on.
    type Payload: From<DueRun> + Send + 'static;

    /// The awaited event has come: a timer, or an answer. Runs the closures of the user inside
    /// `panics`, and returns the next event to wait for.
    fn fire(&mut self, armed: &Arc<Repeater<Self>>, panics: &mut Panics) -> Next;

    /// The payload of a timer whose coming is [looked into](Next::Later) first: no function of the
    /// user's is called, unless the engine's handler keeps no task.
    fn look(due: DueRun) -> Self::Payload {
        due.into()
    }

    /// The thing is over. No other method is called after this.
    fn over(self, end: End, armed: &Repeater<Self>);
}

/// The next event that a thing waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A time on the engine's clock; `u64::MAX` is never.
    At(u64),
    /// A time for a look. The timer that has come does not count as fired: no closure was called.
    Later(u64),
    /// The time that has come, where the engine's tasks run: what has come was a look. It does not
    /// count as fired either.
    Call,
    /// An answer, brought by a holder of a reference that `fire` passed on.
    Answer,
    /// Nothing: it is over.
    End(End),
}

/// Why a thing is armed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arming {
    /// It is new: a full engine refuses it.
    First,
    /// A closure was called. No engine is full for what it has accepted.
    Next,
    /// The timer before has fired, and no closure was called.
    Unheard,
}

/// A thing that repeats: its body, and what does not depend on the body. `repr(C)` keeps this
/// order: the fields that many threads read lie together at the beginning.
#[repr(C)]
pub(super) struct Repeater<B: Body> {
    pub(super) shared: B::Shared,
    pub(super) core: RepeaterCore,
    pub(super) engine: EngineRef<B::Payload>,
    kept: UnsafeCell<HolderState<B>>,
}

/// The state of a thing that any thread may read, whatever its body is.
pub(super) struct RepeaterCore {
    pub(super) word: HoldWord<End>,
    /// Opens when it is over and its closures are gone.
    gone: Latch<Sleeper>,
    /// The process that it runs in.
    process: Process,
    /// What the body counts for its handles: missed runs, or attempts.
    tally: AtomicU64,
    /// The due time of the timer that was armed last.
    due_ns: AtomicU64,
    pub(super) clock: Clock,
}

/// State of the holder.
struct HolderState<B: Body> {
    /// The handle of the timer that was armed last.
    handle: Option<Handle<B::Payload>>,
    /// `Some` until the thing is over.
    body: Option<B>,
}

/// Tells that the closures of a thing are gone when it is dropped.
struct Gone<'a>(&'a Latch<Sleeper>);

/// Ends a thing when it is dropped, which a panic does.
struct OverIfItPanics<'a, B: Body>(&'a Repeater<B>);

/// The payload of the timer of a periodic, on an engine of payloads of the user's: see
/// [`Schedule::start_with`](super::Schedule::start_with). The engine's handler [runs](DueRun::run)
/// it. If it is dropped instead, the periodic ends, as one whose engine has stopped.
#[must_use = "what is dropped instead of run ends its periodic"]
pub struct DueRun(ManuallyDrop<Arc<dyn Repeating>>);

/// An armed thing with its body type erased.
pub(super) trait Repeating: Send + Sync {
    fn core(&self) -> &RepeaterCore;

    /// Ends it so. Returns `true` to one caller; no further event is served.
    fn decide(&self, end: End) -> bool;

    /// Cancels: as `decide`.
    fn cancel(&self) -> bool {
        self.decide(End::Cancelled)
    }

    /// Whether the calling thread must not wait until it is over by itself: see
    /// [`EngineRef::must_not_wait`].
    fn must_not_wait(&self) -> bool;

    /// The awaited event has come: serves it on this thread, or leaves it to the current holder.
    /// Returns `false` if the thing is over; what was brought then stays with the caller.
    fn come(self: Arc<Self>) -> bool;

    /// As `come`, for a thread that runs a task of the engine's own: serves it where the engine's
    /// tasks run.
    fn come_where_tasks_run(self: Arc<Self>) -> bool;
}

/// An armed thing with its body type erased, and with state that any thread may read.
pub(super) trait Arms<S>: Repeating {
    fn shared(&self) -> &S;
}

// SAFETY: only the cell is not `Sync` by itself. Its content is `Send`, and passes from holder to
// holder through the word (see the file's invariants).
unsafe impl<B: Body> Sync for Repeater<B> {}

// === impl Repeater ===

impl<B: Body> Repeater<B> {
    /// Arms a new thing for a time on the engine's clock, with timers of `id`, which is the engine.
    /// `keep` gets the thing before it can fire. The error returns the body.
    pub(super) fn start(
        engine: &Engine<B::Payload>,
        id: EngineRef<B::Payload>,
        at_ns: u64,
        body: B,
        shared: B::Shared,
        keep: impl FnOnce(&Arc<Repeater<B>>),
    ) -> Result<Arc<Repeater<B>>, StartError<B>> {
        let core = RepeaterCore {
            word: HoldWord::new_held(),
            gone: Latch::default(),
            process: Process::current(),
            tally: AtomicU64::new(0),
            due_ns: AtomicU64::new(at_ns),
            clock: engine.clock().clone(),
        };
        let kept = UnsafeCell::new(HolderState { handle: None, body: Some(body) });
        let armed = Arc::new(Repeater { shared, core, engine: id, kept });
        armed.over_if_it_panics(|| keep(&armed));
        let Released::Finish { how, .. } = armed.wait_until(at_ns, Arming::First, B::look) else {
            return Ok(armed);
        };
        let reason = match how {
            End::Full => StartReason::Full,
            End::Stopped => StartReason::Stopped,
            // Who got it from `keep` has cancelled it.
            _ => {
                armed.finish(how);
                return Ok(armed);
            }
        };
        let _gone = Gone(&armed.core.gone);
        Err(Refused::new(reason, armed.take_kept().1.expect("nobody else has seen it")))
    }

    /// Called by the holder: runs `f`, which is foreign code. If it panics, the thing is over.
    fn over_if_it_panics<R>(&self, f: impl FnOnce() -> R) -> R {
        let over = OverIfItPanics(self);
        let result = f();
        mem::forget(over);
        result
    }

    /// Called by the holder: schedules the timer and releases the hold. If the engine refuses the
    /// timer, the thing is over.
    ///
    /// A timer that fires before the release is armed once more, for a time that has already
    /// passed. It is not run here, because this may be a thread of the user that only called
    /// `start`.
    fn wait_until(
        self: &Arc<Self>,
        at_ns: u64,
        mut arming: Arming,
        payload: fn(DueRun) -> B::Payload,
    ) -> Released<End> {
        loop {
            // ORDER: Relaxed - for observation only; the holder is ordered by the word.
            self.core.due_ns.store(at_ns, Ordering::Relaxed);
            let due = DueRun(ManuallyDrop::new(self.clone()));
            let due = self.over_if_it_panics(|| payload(due));
            match self.engine.schedule_at_ns(at_ns, due, arming == Arming::First) {
                // SAFETY: this is the holder. The previous handle is of a timer that has fired.
                Ok(handle) => self.kept.with_mut(|kept| unsafe { (*kept).handle = Some(handle) }),
                Err(error) => {
                    // Conclude before the error drops the task: that drop would decide `Stopped`.
                    let end = if error.is_full() { End::Full } else { End::Stopped };
                    let released = self.core.word.conclude(end);
                    self.over_if_it_panics(|| drop(error));
                    return released;
                }
            }
            if arming == Arming::Unheard {
                self.engine.count_rearmed();
            }
            match self.core.word.release() {
                Released::Again => arming = Arming::Unheard,
                released => return released,
            }
        }
    }

    /// Called by the holder when an event has come: runs the body until the thing waits again or is
    /// over.
    fn run_body(self: &Arc<Self>) {
        // If one hold sees several panics, the first is resumed.
        let mut panics = Panics::none();
        loop {
            let released = match self.with_body(|body| body.fire(self, &mut panics)) {
                Next::End(end) => self.core.word.conclude(end),
                Next::Answer => self.core.word.release(),
                _ if self.core.word.end().is_some() => self.core.word.release(),
                Next::At(at_ns) => self.wait_until(at_ns, Arming::Next, B::Payload::from),
                Next::Later(at_ns) => self.wait_until(at_ns, Arming::Unheard, B::look),
                Next::Call => {
                    self.wait_until(self.core.due_ns(), Arming::Unheard, B::Payload::from)
                }
            };
            match released {
                Released::Free => break,
                Released::Again => {}
                Released::Finish { how, .. } => {
                    panics.run(|| self.finish(how));
                    break;
                }
            }
        }
        panics.go_on();
    }

    /// Cancels the timer and drops the body. Called by the thread that finishes the thing.
    fn finish(&self, end: End) {
        let _gone = Gone(&self.core.gone);
        let (handle, body) = self.take_kept();
        let mut panics = Panics::none();
        working_on(&self.core.gone, || {
            if let Some(handle) = handle {
                // If this is too late, the task has left the engine and will find the word decided.
                panics.run(|| handle.cancel());
            }
            if let Some(body) = body {
                panics.run(|| body.over(end, self));
            }
        });
        panics.go_on();
    }

    /// Takes the kept state. Called by the thread that finishes the thing.
    fn take_kept(&self) -> (Option<Handle<B::Payload>>, Option<B>) {
        // SAFETY: only the holder, or the thread that finishes the thing, calls this.
        self.kept.with_mut(|kept| unsafe { ((*kept).handle.take(), (*kept).body.take()) })
    }

    /// Lends the body to the holder.
    fn with_body<R>(&self, f: impl FnOnce(&mut B) -> R) -> R {
        // SAFETY: only the holder calls this, and nothing that `f` calls touches the kept state:
        // the thing is already held.
        self.kept.with_mut(|kept| unsafe {
            let body: &mut Option<B> = &mut (*kept).body;
            f(body.as_mut().expect("it is not over"))
        })
    }
}

impl<B: Body> Arms<B::Shared> for Repeater<B> {
    fn shared(&self) -> &B::Shared {
        &self.shared
    }
}

impl<B: Body> Repeating for Repeater<B> {
    fn core(&self) -> &RepeaterCore {
        &self.core
    }

    fn decide(&self, end: End) -> bool {
        match self.core.word.decide(end, || false) {
            Decided::Finish => {
                self.finish(end);
                true
            }
            Decided::Noted => true,
            Decided::Late => false,
        }
    }

    fn must_not_wait(&self) -> bool {
        self.engine.must_not_wait()
    }

    fn come_where_tasks_run(self: Arc<Self>) -> bool {
        let engine = self.engine;
        if !engine.keeps_own_tasks() {
            return self.come();
        }
        // If it is refused, the drop of the payload ends the thing.
        if engine.schedule_at_once(DueRun(ManuallyDrop::new(self)).into()).is_ok() {
            engine.count_rearmed();
        }
        true
    }

    fn come(self: Arc<Self>) -> bool {
        // An answer from inside an attempt counts like any other, so no hold is "own".
        match self.core.word.come(|| false) {
            Came::Hold => {
                working_on(&self.core.gone, || self.run_body());
                true
            }
            Came::Noted => true,
            Came::Over => false,
        }
    }
}

// === impl RepeaterCore ===

impl Ends<End> for RepeaterCore {
    fn latch(&self) -> &Latch<Sleeper> {
        &self.gone
    }

    fn process(&self) -> Process {
        self.process
    }

    fn ended(&self) -> Option<End> {
        self.word.end().filter(|_| self.gone.is_open())
    }
}

impl RepeaterCore {
    /// Returns the due time of the timer that was armed last.
    pub(super) fn due_ns(&self) -> u64 {
        // ORDER: Relaxed - for observation only.
        self.due_ns.load(Ordering::Relaxed)
    }

    /// Returns what the body has counted.
    pub(super) fn tally(&self) -> u64 {
        // ORDER: Relaxed - a count for observation.
        self.tally.load(Ordering::Relaxed)
    }

    /// Adds to what the body counts, and returns the sum.
    pub(super) fn add_to_tally(&self, n: u64) -> u64 {
        // ORDER: Relaxed - a count for observation; its only writer is the holder.
        self.tally.fetch_add(n, Ordering::Relaxed) + n
    }
}

// === impl DueRun, Gone, OverIfItPanics ===

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.open(Sleeper::ring);
    }
}

impl<B: Body> Drop for OverIfItPanics<'_, B> {
    fn drop(&mut self) {
        if let Released::Finish { how, .. } = self.0.core.word.conclude(End::Panicked) {
            // Not the panics of closures as well.
            contained(|| self.0.finish(how));
        }
    }
}

impl DueRun {
    /// The timer is due: runs the task of the periodic, and arms the next timer. A run that another
    /// thread is still in the middle of is followed by this one, on that thread.
    ///
    /// # Panics
    /// Propagates a panic of the task, after everything else is done.
    pub fn run(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: this is not dropped.
        unsafe { ManuallyDrop::take(&mut this.0) }.come();
    }
}

impl From<DueRun> for Task {
    fn from(due: DueRun) -> Task {
        Task::of(due)
    }
}

impl Runs for DueRun {
    const KIND: Kind = Kind::Repeats;

    fn run(self) {
        DueRun::run(self);
    }
}

impl Drop for DueRun {
    fn drop(&mut self) {
        // SAFETY: it is dropped once, and was not run.
        unsafe { ManuallyDrop::take(&mut self.0) }.decide(End::Stopped);
    }
}

impl fmt::Debug for DueRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DueRun")
    }
}
