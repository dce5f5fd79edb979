//! The ambient engine: the one that [`sleep`](crate::sleep) and its like run on, which name none.
//!
//! It is the first of these that there is:
//!
//! 1. the engine that the thread has entered last, or else the thread's own. A thread knows them by
//!    their numbers: entering counts no reference, and a number of an engine that is gone finds
//!    nothing;
//! 2. the process's, if the program has set it;
//! 3. that of the current runtime of tokio's (`of_runtime`), which is built on first use;
//! 4. the process's, which is built on first use, too.
//!
//! *Owner*: each thread has its own choice; the process's engine is set once.
//!
//! *Tested by*: `tests/alone/ambient.rs`, `tests/alone/global_first.rs`,
//! `tests/alone/global_set.rs`, `tests/alone/fork/main.rs`, `tests/suite/drive/of_runtime.rs`.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Instant;

use crate::error::{BuildError, GlobalReason, Refused};
use crate::sync::{Global, thread};

use super::registry::{NONE, is_inherited};
use super::{Engine, EngineRef};

/// The engine of this process, or of the one that it was forked from.
static GLOBAL: Global<OfProcess> = Global::empty();

/// The process's engine.
struct OfProcess {
    engine: Engine,
    /// The program has set it.
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "only runtimes ask"))]
    is_set: bool,
}

thread_local! {
    /// Has no destructor, so that it also works while a thread ends.
    static CHOICE: Choice = const {
        Choice { chosen: Cell::new(NONE), depth: Cell::new(0), of_thread: Cell::new(NONE) }
    };
}

/// The engines that a thread has chosen, by number.
struct Choice {
    /// What was entered last, or else `of_thread`.
    chosen: Cell<u32>,
    /// How many guards there are.
    depth: Cell<u32>,
    of_thread: Cell<u32>,
}

/// Makes an engine the ambient one of its thread until it is dropped. Created by
/// [`Engine::enter`].
///
/// Guards are dropped in the reverse order of their creation. A guard stays on its thread, and must
/// not be kept across an `.await`: other tasks of the thread would find its engine. For a future,
/// there is [`Engine::entered`].
///
/// ```
/// use tickless::{Engine, EnterGuard};
///
/// let engine = Engine::builder().shards(1).build()?;
/// let entered: EnterGuard<'_> = engine.enter();
/// # drop(entered);
/// # Ok::<(), tickless::BuildError>(())
/// ```
///
/// ```compile_fail,E0277
/// # use tickless::Engine;
/// # let engine = Engine::global();
/// let entered = engine.enter();
/// std::thread::spawn(move || drop(entered)); // it stays on its thread
/// ```
///
/// # Panics
/// Dropping it panics if a guard that was created later still exists (or was forgotten). The thread
/// has then left the engines of both.
#[must_use = "the engine is left when the guard is dropped"]
pub struct EnterGuard<'a> {
    /// What the thread had chosen before.
    before: u32,
    /// How many guards there were with this one.
    depth: u32,
    /// It is for one thread.
    engine: PhantomData<(&'a Engine, *mut ())>,
}

/// Why an engine did not become the process's own, together with the engine: see
/// [`Engine::set_global`](crate::Engine::set_global).
///
/// ```
/// use tickless::{Engine, GlobalReason};
///
/// Engine::global();
/// let refused = Engine::set_global(Engine::builder().shards(1).build()?).unwrap_err();
/// assert_eq!(refused.reason(), GlobalReason::InUse);
/// assert_eq!(refused.into_payload().shards(), 1);
/// # Ok::<(), tickless::BuildError>(())
/// ```
pub type SetGlobalError = Refused<GlobalReason, Engine>;

/// Returns the time by the clock of the ambient engine: see [`Engine::enter`]. With virtual time,
/// this is the time that deadlines are compared with; with a clock of the system it is
/// [`Instant::now`].
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
///
/// let clock = ManualClock::new();
/// let engine = Engine::builder().manual_clock(&clock).build()?;
/// let _entered = engine.enter();
/// let before = tickless::now();
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(tickless::now() - before, Duration::from_secs(3600));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// If that engine is gone, it returns [`Instant::now`].
///
/// # Panics
/// As [`Engine::global`] does, if this is its first use.
#[track_caller]
pub fn now() -> Instant {
    EngineRef::ambient().now().unwrap_or_else(Instant::now)
}

// === impl Engine: the thread's ===

impl Engine {
    /// Makes this the *ambient engine* of the calling thread until the guard is dropped:
    /// [`sleep`](crate::sleep), [`timeout`](crate::timeout), [`interval`](crate::interval) and
    /// [`now`](crate::now) use it instead of the [global engine](Engine::global).
    ///
    /// They choose their engine when they are called, not when they are polled. What they create
    /// keeps its engine, whichever thread polls it, and its deadline is by that engine's clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// /// Knows nothing of engines.
    /// async fn poll_a_server() -> &'static str {
    ///     tickless::sleep(Duration::from_secs(60)).await;
    ///     "a minute later"
    /// }
    ///
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let mut answer = Box::pin(engine.entered(poll_a_server()));
    /// let mut poll = || futures_util::FutureExt::now_or_never(&mut answer);
    /// assert_eq!(poll(), None);
    /// engine.advance(Duration::from_secs(60))?;
    /// assert_eq!(poll(), Some("a minute later"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Other threads are not affected, nor are tasks that are spawned meanwhile: when they run,
    /// they find what their thread has entered. Give such a task its engine with
    /// [`entered`](Engine::entered), or all threads of a runtime with
    /// [`enter_thread`](Engine::enter_thread).
    ///
    /// If the engine is gone when it is used, what is created behaves as with an engine that has
    /// stopped. (Nobody may know its clock then, so also what is due at once may be refused.) In a
    /// child made by `fork`, nothing is entered: an engine of the parent is of no use there.
    ///
    /// Guards nest. No reference is counted.
    pub fn enter(&self) -> EnterGuard<'_> {
        EngineRef::new(self).enter()
    }

    /// Makes this the ambient engine of the calling thread for good, beneath what is
    /// [entered](Engine::enter). This is for the threads of a runtime, each of which calls it when
    /// it starts. It does not keep the engine alive.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::builder().tick(Duration::from_micros(100)).build()?;
    /// let ours = engine.clone();
    /// let runtime = tokio::runtime::Builder::new_multi_thread()
    ///     .on_thread_start(move || ours.enter_thread())
    ///     .build()?;
    /// // The sleep is on `engine`, whichever thread runs the task.
    /// let nap = runtime.spawn(async { tickless::sleep(Duration::from_millis(1)).await });
    /// runtime.block_on(nap)?;
    /// assert_eq!(engine.stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter_thread(&self) {
        CHOICE.with(|choice| {
            choice.of_thread.set(self.number());
            if choice.depth.get() == 0 {
                choice.chosen.set(self.number());
            }
        });
    }
}

impl<'a> EngineRef {
    /// The ambient engine of the calling thread.
    ///
    /// # Panics
    /// As [`Engine::global`].
    #[inline]
    #[track_caller]
    pub(crate) fn ambient() -> EngineRef {
        let number = CHOICE.with(|choice| choice.chosen.get());
        // No number counts as inherited, too.
        if is_inherited(number) { EngineRef::of_thread() } else { EngineRef::numbered(number) }
    }

    /// The ambient engine of a thread that has entered none, or one of the parent process.
    #[track_caller]
    fn of_thread() -> EngineRef {
        let number = CHOICE.with(|choice| choice.of_thread.get());
        if !is_inherited(number) {
            return EngineRef::numbered(number);
        }
        let published = published();
        #[cfg(feature = "tokio")]
        if !published.is_some_and(|published| published.is_set) {
            if let Some(engine) = super::of_runtime::current() {
                return engine;
            }
        }
        match published {
            Some(OfProcess { engine, .. }) => EngineRef::new(engine),
            None => EngineRef::first_global(),
        }
    }

    #[cold]
    #[track_caller]
    fn first_global() -> EngineRef {
        EngineRef::new(Engine::global())
    }

    /// As [`Engine::enter`].
    #[inline]
    pub(crate) fn enter(self) -> EnterGuard<'a> {
        CHOICE.with(|choice| {
            let depth = choice.depth.get() + 1;
            choice.depth.set(depth);
            let before = choice.chosen.replace(self.number());
            EnterGuard { before, depth, engine: PhantomData }
        })
    }
}

// === impl EnterGuard ===

impl Drop for EnterGuard<'_> {
    fn drop(&mut self) {
        CHOICE.with(|choice| {
            let depth = choice.depth.get();
            if depth < self.depth {
                // One below it was dropped before, and has left this one, too.
                return;
            }
            choice.depth.set(self.depth - 1);
            // It may have changed meanwhile.
            let is_last = self.depth == 1;
            choice.chosen.set(if is_last { choice.of_thread.get() } else { self.before });
            if depth > self.depth && !thread::panicking() {
                panic!("an `EnterGuard` was dropped before one that was created later");
            }
        });
    }
}

debug! { impl[] EnterGuard[ '_ ] {} }

// === impl Engine: the process's ===

impl Engine {
    /// Returns the process's own engine, on which [`sleep`](crate::sleep),
    /// [`timeout`](crate::timeout) and [`interval`](crate::interval) run, unless another was
    /// [entered](Engine::enter). It is the engine that was given to
    /// [`set_global`](Engine::set_global). If there is none, it has the default settings (1 ms
    /// ticks, a shard per core, no limit) and is started on first use. It is never dropped. It can
    /// be stopped like any other engine, and does not start again. A child process has a global
    /// engine of its own.
    ///
    /// With the feature `tokio`, code that names no engine and runs inside a tokio runtime uses the
    #[cfg_attr(feature = "tokio", doc = "[runtime's own engine](Engine::of_runtime)")]
    #[cfg_attr(not(feature = "tokio"), doc = "runtime's own engine")]
    /// instead, unless the program has set this one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::global();
    /// assert!(engine.schedule(Duration::from_secs(5), || println!("five seconds"))?.cancel());
    /// assert!(std::ptr::eq(engine, Engine::global()), "there is one");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// The engine is not running yet, and could not be built. [`try_global`](Engine::try_global)
    /// returns the error instead.
    #[track_caller]
    pub fn global() -> &'static Engine {
        // (A closure would be named as the place of the panic.)
        match Engine::try_global() {
            Ok(engine) => engine,
            Err(error) => panic!("the process's own engine could not be started: {error}"),
        }
    }

    /// As [`global`](Engine::global), but returns the error instead of panicking. The next call
    /// tries again.
    ///
    /// If several threads call this first, each may build an engine, and one of these engines is
    /// kept.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn try_global() -> Result<&'static Engine, BuildError> {
        let published = match published() {
            Some(published) => published,
            None => {
                let ours = OfProcess { engine: Engine::new()?, is_set: false };
                // The engine that another thread has set meanwhile is as good.
                GLOBAL.set(ours, is_ours).unwrap_or_else(|(other, _)| other)
            }
        };
        Ok(&published.engine)
    }

    /// Makes `engine` the process's own: see [`global`](Engine::global). It is never dropped from
    /// then on. This is for the beginning of a program that wants another tick, a limit, fewer
    /// threads, or virtual time in its tests. A library should leave it to the program. Whether the
    /// engine has stopped is not asked.
    ///
    /// ```standalone_crate
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::builder().tick(Duration::from_micros(100)).shards(1).build()?;
    /// Engine::set_global(engine)?;
    /// pollster::block_on(tickless::sleep(Duration::from_micros(200)));
    /// assert_eq!(Engine::global().stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The process has its engine already: it was set, or used, before. Or `engine` belongs to the
    /// parent process, or to a tokio runtime, with which it ends
    #[cfg_attr(feature = "tokio", doc = "([`enter_runtime`](Engine::enter_runtime) is for that).")]
    #[cfg_attr(not(feature = "tokio"), doc = "(feature `tokio`).")]
    /// `engine` comes back in the error.
    pub fn set_global(engine: Engine) -> Result<(), SetGlobalError> {
        if engine.is_inherited() {
            return Err(SetGlobalError::new(GlobalReason::Forked, engine));
        }
        #[cfg(feature = "tokio")]
        if engine.core().runtime.is_some() {
            return Err(SetGlobalError::new(GlobalReason::OfRuntime, engine));
        }
        match GLOBAL.set(OfProcess { engine, is_set: true }, is_ours) {
            Ok(_) => Ok(()),
            Err((_, ours)) => Err(SetGlobalError::new(GlobalReason::InUse, ours.engine)),
        }
    }
}

#[cfg(any(feature = "hyper", feature = "quinn", feature = "tower"))]
impl Engine {
    /// The engine of code that names none, whatever its thread has entered.
    ///
    /// # Panics
    /// As [`Engine::global`].
    #[track_caller]
    pub(crate) fn of_place() -> Engine {
        #[cfg(feature = "tokio")]
        if !published().is_some_and(|published| published.is_set) {
            if let Some(engine) = super::of_runtime::current_engine() {
                return engine;
            }
        }
        Engine::global().clone()
    }
}

/// The process's engine, if it has one.
#[inline]
fn published() -> Option<&'static OfProcess> {
    GLOBAL.get(is_ours)
}

/// Whether an engine is this process's, and not its parent's.
fn is_ours(published: &OfProcess) -> bool {
    !published.engine.is_inherited()
}
