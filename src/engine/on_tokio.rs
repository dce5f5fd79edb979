//! An engine that a task of a tokio runtime serves.
//!
//! On Linux the task waits for a timer of the system, by the runtime's reactor. It sets the timer
//! to when the shards need their next turn, and a ring makes it come earlier: when the timer that
//! it rings for is due (`doorbell/earliest.rs`). So a ring wakes no task: the thread that rings may
//! be a worker of the runtime that is busy for long after that, and tokio would put the task behind
//! what it does, where no other worker finds it. Any worker that waits for the reactor runs the
//! task. Nor is a timer rounded twice, as by a sleep of the runtime.
//!
//! The timer is set only if it is to come earlier than it is set to, or has come. If the timer that
//! it was set for is no more, that costs a wake-up.
//!
//! Otherwise the task sleeps by the runtime, and a ring wakes it: on other systems, if the runtime
//! has no reactor or the system no descriptor, and while the runtime's time does not follow the
//! system's, as in tests (`start_paused`). Then a second task, which does nothing, is woken after
//! it: a worker that wakes both puts the first where others find it. In tests, timers fire where
//! the runtime fires its own, and not when the task has its turn after that (`AtOnce`).
//!
//! *Owner*: the task. Any thread rings.
//!
//! *Orderings*: DOORBELL; see `doorbell::{listener,earliest}`.
//!
//! *Tested by*: `tests/suite/drive/busy.rs`, `tests/suite/drive/live.rs`,
//! `tests/suite/drive/on_tokio.rs`, `loom-tests/tests/listener.rs`.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::time::{Instant as TokioInstant, sleep_until};

use crate::dispatch::{Handler, Inline, contained};
#[cfg(target_os = "linux")]
use crate::doorbell::{Earliest, SystemTimer};
use crate::doorbell::{Listening, Rings, Rung};
use crate::error::BuildError;
use crate::reaper::waits_by_sleep;
use crate::sync::{Arc, OnceLock, Weak, thread};
use crate::time::{Clock, RuntimeNow};

use super::core::Core;
use super::driving_task::{Sleeps, Wait, serve};
use super::{Builder, Driver, Engine};

/// A wait by the runtime's reactor or, without it, by the runtime's sleeps.
struct RuntimeWait<'a, S, F> {
    reactor: Option<Reactor>,
    sleeps: Sleeps<'a, S, F>,
    /// The engine's clock, if that is the runtime's.
    clock: Option<Arc<RuntimeClock>>,
    /// The task waits by the runtime's sleeps as well, since these see it if time is paused. (There
    /// is one thread then, so a ring may wake the task: no other would be quicker.)
    waits_twice: bool,
    /// Serves the shards, once.
    serve: Arc<dyn Fn() + Send + Sync>,
}

/// The waker of a sleep while the runtime's time does not follow the system's: what `advance` makes
/// due has fired when that returns, as with tokio's own timers.
struct AtOnce {
    serve: Arc<dyn Fn() + Send + Sync>,
    task: Waker,
}

/// The clock of a runtime: the system's, until the runtime's shows another time. (Then a thread
/// that is ending, and past what tokio keeps of it, has another thread ask the runtime.)
struct RuntimeClock {
    of: Id,
    /// The runtime, from then on.
    moved: OnceLock<Handle>,
}

/// Whether time may be paused at any time: then the runtime's own thread looks at each reading.
/// What it scheduled by the system's time meanwhile would be early by the runtime's.
const LOOKS: bool = cfg!(all(debug_assertions, panic = "unwind"));

/// Ends the engine when its runtime drops the task that serves it.
struct EndsWithRuntime<T: Send + 'static>(Option<Weak<Core<T>>>);

// === impl Builder: on tokio ===

impl Builder {
    /// Builds an engine for closures that the current tokio runtime serves: a task of the runtime
    /// does what threads of the engine do otherwise. This is the engine for programs whose timers
    /// are those of one runtime's tasks: no other thread wakes the runtime's threads.
    ///
    /// The engine belongs to the runtime. Closures run on the runtime's threads, and should be
    /// short. The engine follows the runtime's clock, also where that is paused
    /// (`tokio::time::pause`) before the engine is built: so tests with `start_paused` run without
    /// waiting. In a build with debug assertions, time may be paused at any time. (A
    /// [`clock`](Builder::clock) of the builder is followed instead, if it has one.) When the
    /// runtime shuts down, the engine stops: what awaits a timer ends with
    /// [`RuntimeEnded`](crate::ScheduleReason::RuntimeEnded), and other payloads that are pending
    /// wait for [`stop`](Engine::stop) to return them. The task ends when the engine stops or its
    /// last clone is dropped.
    ///
    /// On Linux the task waits for a timer of the system by the runtime's reactor, which takes a
    /// file descriptor. So sleeps are late by less than a tick, plus what the reactor takes. A task
    /// that schedules a timer and then keeps its worker busy holds up no others. (If the worker
    /// that waits for the reactor wakes just one task, tokio runs that there, and calls no other
    /// worker: if the task keeps it busy, all timers of the runtime wait, these and tokio's own. An
    /// engine with threads goes on.) Without the reactor (on other systems, in a runtime without
    /// [`enable_io`](tokio::runtime::Builder::enable_io), if too many files are open, or if the
    /// runtime's time is not the system's), it waits by the runtime's own sleeps, whose resolution
    /// of a millisecond comes on top. With the feature `tracing` an event (`tickless::runtime`)
    /// tells if the runtime or the system has refused.
    ///
    /// Code of a runtime that names no engine has such an engine already, which is built on first
    /// use: [`Engine::of_runtime`]. An engine with other settings takes its place by
    /// [`Engine::enter_runtime`]:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// Engine::builder().tick(Duration::from_micros(100)).build_on_tokio()?.enter_runtime()?;
    ///
    /// tickless::sleep(Duration::from_millis(5)).await;
    /// let answer = tickless::timeout(Duration::from_secs(5), async { 7 }).await?;
    /// # assert_eq!(answer, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`build`](Builder::build). There is no current tokio runtime, or it has neither a reactor
    /// nor timers. The clock is one that is moved by hand, which a runtime does not follow.
    ///
    /// # Panics
    /// Tokio panics where it has no reactor or, in a build with debug assertions, one thread and no
    /// timers. That is caught, and reported by the program's panic hook; a program that aborts at
    /// panics needs a runtime with [`enable_io`](tokio::runtime::Builder::enable_io) on Linux.
    pub fn build_on_tokio(self) -> Result<Engine, BuildError> {
        self.build_on_tokio_with_handler(Inline)
    }

    /// As [`build_on_tokio`](Builder::build_on_tokio), for an engine that hands its payloads to
    /// `handler`, on the runtime's threads.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Batch, Engine};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (sender, mut due) = tokio::sync::mpsc::unbounded_channel();
    /// let handler = move |batch: Batch<'_, u32>| batch.for_each(|id| drop(sender.send(id)));
    /// let engine = Engine::builder().build_on_tokio_with_handler(handler)?;
    /// engine.schedule_detached(Duration::from_millis(2), 7)?;
    /// assert_eq!(due.recv().await, Some(7));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As `build_on_tokio`.
    pub fn build_on_tokio_with_handler<T: Send + 'static, H: Handler<T> + 'static>(
        mut self,
        handler: H,
    ) -> Result<Engine<T>, BuildError> {
        let runtime = Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        if self.is_by_hand() {
            return Err(BuildError::ManualClockWithThreads);
        }
        let follows = self.clock.is_none() && may_be_paused(&runtime);
        let runtime_clock = follows.then(|| Arc::new(RuntimeClock::new(runtime.id())));
        let is_moved = runtime_clock.as_ref().is_some_and(|clock| clock.look());
        let clock = self.clock.take().unwrap_or_else(|| match runtime_clock.clone() {
            Some(clock) => {
                Clock::of_runtime(RuntimeNow(Arc::new(move || clock.now())), !is_moved && !LOOKS)
            }
            None => Clock::system(),
        });
        let reactor = (!is_moved).then(|| Reactor::of_current(&clock));
        let has_reactor = reactor.as_ref().is_some_and(Result::is_ok);
        if !has_reactor && !has_timers() {
            return Err(BuildError::RuntimeWithoutTimers);
        }
        let looks = LOOKS && runtime_clock.is_some();
        let waits_twice = looks && has_reactor && has_timers();
        self.timer = reactor.iter().flatten().map(Reactor::rung).next();
        self.runtime = Some(runtime.id());
        let engine = self.clock(clock).driver(Driver::Caller).build_with_handler(handler)?;
        let core = Arc::downgrade(&engine.inner.core);
        let report = |error: &io::Error| waits_by_sleep(engine.core().observers[0].name(), error);
        let reactor = reactor.and_then(|reactor| reactor.inspect_err(report).ok());
        let clock = runtime_clock;
        let ends = EndsWithRuntime(Some(core.clone()));
        runtime.spawn(async move {
            let mut sleep = pin!(None);
            let sleeps = Sleeps::new(|at: Instant| sleep_until(at.into()), sleep.as_mut());
            let at_once = serve_at_once(core.clone());
            let wait = RuntimeWait { reactor, sleeps, clock, waits_twice, serve: at_once };
            let _stopped = serve(core, wait).await;
            ends.not_now();
        });
        Ok(engine)
    }
}

/// Whether the current runtime has timers. (Without them, this panics here and not in the task.)
fn has_timers() -> bool {
    contained(|| drop(sleep_until(TokioInstant::now())))
}

/// Whether the runtime's time may be paused: tokio refuses that where there are several threads.
fn may_be_paused(runtime: &Handle) -> bool {
    runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
}

/// What runs a turn of each shard, which fires all that is due. If the engine has stopped, the task
/// hears of that.
fn serve_at_once<T: Send + 'static>(core: Weak<Core<T>>) -> Arc<dyn Fn() + Send + Sync> {
    Arc::new(move || {
        let Some(core) = core.upgrade() else { return };
        for shard in 0..core.shards.len() {
            let _ = core.turn(shard, usize::MAX, usize::MAX);
        }
    })
}

impl<T: Send + 'static> EndsWithRuntime<T> {
    /// The engine has ended before.
    fn not_now(mut self) {
        self.0 = None;
    }
}

impl<T: Send + 'static> Drop for EndsWithRuntime<T> {
    fn drop(&mut self) {
        if let Some(core) = self.0.take().and_then(|core| core.upgrade()) {
            core.end_with_runtime();
        }
    }
}

// === impl RuntimeWait ===

impl<S, F> Wait for RuntimeWait<'_, S, F>
where
    S: FnMut(Instant) -> F,
    F: Future,
{
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        let Some(reactor) = &mut self.reactor else {
            if !self.is_moved() {
                return self.sleeps.poll_over(cx);
            }
            let at_once = AtOnce { serve: self.serve.clone(), task: cx.waker().clone() };
            let waker = Waker::from(Arc::new(at_once));
            return self.sleeps.poll_over(&mut Context::from_waker(&waker)).map(|_| None);
        };
        let mut is_over = reactor.poll_over(cx).is_ready();
        is_over |= self.waits_twice && self.sleeps.poll_over(cx).is_ready();
        if (is_over || self.waits_twice) && self.clock.as_ref().is_some_and(|clock| clock.look()) {
            self.reactor = None;
            is_over = true;
        }
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    }

    fn hear<'a>(&mut self, listening: &'a mut Listening, cx: &mut Context<'_>) -> Rings<'a> {
        match &self.reactor {
            Some(_) if !self.waits_twice => listening.rings(),
            _ => self.sleeps.hear(listening, cx),
        }
    }

    fn set(&mut self, until: Option<Instant>, clock: &Clock) {
        let is_moved = self.is_moved();
        self.reactor.iter_mut().for_each(|reactor| reactor.set(until, clock));
        if is_moved {
            self.sleeps.set(until.map(early), clock);
        } else if self.reactor.is_none() || self.waits_twice {
            self.sleeps.set(until, clock);
        }
    }
}

impl<S, F> RuntimeWait<'_, S, F> {
    /// Whether the engine follows a clock that does not show the system's time.
    fn is_moved(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.is_moved())
    }
}

/// When a sleep is to end by which the runtime's stopped clock moves to `until`. It moves by whole
/// milliseconds, from within one: a sleep until then may end later by nearly one. This one may end
/// earlier by as much, and one until then follows.
fn early(until: Instant) -> Instant {
    let early = until.checked_sub(Duration::from_nanos(999_999)).unwrap_or(until);
    if early > TokioInstant::now().into_std() { early } else { until }
}

// === impl AtOnce ===

impl Wake for AtOnce {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        (self.serve)();
        self.task.wake_by_ref();
    }
}

// === impl RuntimeClock ===

impl RuntimeClock {
    fn new(of: Id) -> RuntimeClock {
        RuntimeClock { of, moved: OnceLock::new() }
    }

    fn now(&self) -> Instant {
        if LOOKS && !self.is_moved() && is_current(self.of) {
            self.look();
        }
        let Some(runtime) = self.moved.get() else { return Instant::now() };
        let read = || {
            let _entered = runtime.enter();
            TokioInstant::now().into_std()
        };
        if !is_past_tokio() {
            return read();
        }
        thread::scope(|scope| {
            let other = thread::Builder::new().spawn_scoped(scope, read).ok()?;
            other.join().ok()
        })
        // The system has no thread to spare.
        .unwrap_or_else(Instant::now)
    }

    /// Whether the current runtime, whose clock this is, shows another time than the system. It is
    /// asked from then on.
    fn look(&self) -> bool {
        if !self.is_moved() && shows_other_time() {
            self.moved.get_or_init(Handle::current);
        }
        self.is_moved()
    }

    fn is_moved(&self) -> bool {
        self.moved.get().is_some()
    }
}

fn is_current(runtime: Id) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == runtime)
}

/// Whether the calling thread is ending, and what tokio keeps of it is gone: there, tokio panics
/// where it is asked for its time.
fn is_past_tokio() -> bool {
    Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}

/// Whether the current runtime's time is not the system's: it is paused, or was.
fn shows_other_time() -> bool {
    shows_other_time_than(Instant::now)
}

fn shows_other_time_than(read: impl Fn() -> Instant) -> bool {
    if is_past_tokio() {
        return false;
    }
    let before = read();
    let now = TokioInstant::now().into_std();
    now < before || read() < now
}

#[cfg(debug_assertions)]
impl<T: Send + 'static> Core<T> {
    /// See [`EngineRef::is_beside_paused_time`](super::EngineRef::is_beside_paused_time).
    pub(super) fn is_beside_paused_time(&self) -> bool {
        if self.clock.as_manual().is_some() || !shows_other_time() {
            return false;
        }
        if !self.clock.is_of_runtime() || !self.runtime.is_some_and(is_current) {
            return self.clock.counts_suspension() || shows_other_time_than(|| self.instant_now());
        }
        // If it was paused a moment ago, the task that serves the engine will see that.
        self.shards[0].doorbell().ring();
        false
    }
}

// === impl Reactor ===

/// A timer of the system for which the runtime's reactor waits.
#[cfg(target_os = "linux")]
struct Reactor {
    timer: AsyncFd<Arc<Earliest<SystemTimer>>>,
    /// It has come, and was not set since.
    has_come: bool,
    /// Dropped last.
    _closes: ClosesTimer,
}

/// Closes the timer's file: threads that have used the engine may keep it for longer.
#[cfg(target_os = "linux")]
struct ClosesTimer(Arc<Earliest<SystemTimer>>);

#[cfg(target_os = "linux")]
impl Reactor {
    /// In the current runtime, for an engine with this clock.
    fn of_current(clock: &Clock) -> io::Result<Reactor> {
        let timer = Arc::new(Earliest::new(SystemTimer::new(clock)?));
        let closes = ClosesTimer(timer.clone());
        let mut registered = None;
        #[allow(
            deprecated,
            reason = "older versions of tokio have no other, and do not call it so"
        )]
        contained(|| registered = Some(AsyncFd::with_interest(timer, Interest::READABLE)));
        let timer = registered.ok_or_else(|| io::Error::other("the runtime has no reactor"))??;
        Ok(Reactor { timer, has_come: false, _closes: closes })
    }

    /// What rings are for.
    fn rung(&self) -> Arc<dyn Rung> {
        self.timer.get_ref().clone()
    }

    /// Whether the timer has come since this last said so.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.timer.poll_read_ready(cx) {
            Poll::Ready(Ok(mut ready)) => {
                // (It is not read: a time that is set is new.)
                ready.clear_ready();
                self.has_come = true;
                Poll::Ready(())
            }
            // The runtime is about to drop the task.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }

    fn set(&mut self, until: Option<Instant>, clock: &Clock) {
        let at_ns = until.map_or(u64::MAX, |until| clock.ns_at(until));
        // (Spelt out: only Linux has a reactor here, and elsewhere an import would be unused.)
        let has_come = std::mem::take(&mut self.has_come);
        self.timer.get_ref().wait(at_ns, has_come);
    }
}

#[cfg(target_os = "linux")]
impl Drop for ClosesTimer {
    fn drop(&mut self) {
        self.0.timer().close();
    }
}

/// There is none here.
#[cfg(not(target_os = "linux"))]
enum Reactor {}

#[cfg(not(target_os = "linux"))]
impl Reactor {
    fn of_current(_: &Clock) -> io::Result<Reactor> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn rung(&self) -> Arc<dyn Rung> {
        match *self {}
    }

    fn poll_over(&mut self, _: &mut Context<'_>) -> Poll<()> {
        match *self {}
    }

    fn set(&mut self, _: Option<Instant>, _: &Clock) {
        match *self {}
    }
}
