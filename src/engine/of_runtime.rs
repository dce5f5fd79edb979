//! The engines of tokio's runtimes: each runtime has one of its own, on which the code in it runs
//! that names none.
//!
//! It is the one that has [entered](Engine::enter_runtime) the runtime, or else one that is built
//! there when it is first needed. A task of the runtime keeps it, and does nothing else: when the
//! runtime drops the task, the engine ends, and is known no more. Where no engine can be built, as
//! in a runtime without timers, that is known, too, and code there uses the process's.
//!
//! Each call asks tokio for its runtime, which counts a reference, as each sleep of tokio's does.
//! (What a worker remembered of its runtime would be wrong where a task blocks on another one.)
//!
//! A runtime that shuts down drops its tasks one by one, and with the first of them perhaps its
//! engine, while other workers still poll others. These have no error to show: see [`is_ending`].
//! Nor does each of them build another engine, which would end at once: it finds one that is gone.
//!
//! A process that was forked builds none by itself: its runtime may be its parent's, whose threads
//! do not exist here.
//!
//! *Owner*: any thread. If several are the first in a runtime, each may build an engine, and one of
//! these is kept.
//!
//! *Invariants*: a runtime that is in the table has a task that takes it out again.
//!
//! *Tested by*: `tests/suite/drive/of_runtime.rs`, `tests/memory/runtimes.rs`,
//! `tests/alone/fork/main.rs`.

use std::cell::Cell;
use std::future::{Future, pending};
use std::pin::pin;
use std::task::{Context, Wake, Waker};

use tokio::runtime::{Handle, Id};
use tokio::task;

use crate::dispatch::Task;
use crate::entry::Published;
use crate::error::{BuildError, GlobalReason};
use crate::sync::{Arc, Weak};

use super::facade::Inner;
use super::registry::{ENDED, NONE, STOPS, has_parent, is_inherited};
use super::{Engine, EngineRef};

/// The runtimes whose code has used an engine of the runtime, or found that there can be none.
// SAFETY: dropping a table frees at most the memory of engines that were dropped before.
static RUNTIMES: Published<Vec<(Id, Known)>> = unsafe { Published::empty() };

/// The engine of a runtime.
#[derive(Clone)]
struct Known {
    /// `NONE`: there can be none.
    number: u32,
    engine: Weak<Inner<Task>>,
}

thread_local! {
    /// The runtime that the thread was in last, its engine, and how many engines had stopped before
    /// that was found: if there are more now, it may be one of them.
    static FOUND: Cell<Option<(Id, u32, u64)>> = const { Cell::new(None) };
}

/// A waker that wakes nobody, and is counted.
struct KeptWaker;

/// What the task of a runtime keeps: its engine, if it can have one.
struct KeptEngine {
    runtime: Id,
    engine: Option<Engine>,
}

// === impl Engine: the runtime's ===

impl Engine {
    /// Returns the current tokio runtime's own engine, on which [`sleep`](crate::sleep),
    /// [`timeout`](crate::timeout) and [`interval`](crate::interval) run inside the runtime, unless
    /// another was [entered](Engine::enter) or [set](Engine::set_global). If there is none, it is
    /// [built on the runtime](crate::Builder::build_on_tokio) on first use, with the default
    /// settings. It ends with the runtime. It can be stopped like any other engine, and does not
    /// start again.
    ///
    /// A runtime with neither a reactor nor timers can have none; code in it uses the
    /// [global](Engine::global) engine. That it has neither is found by panics of tokio's, which
    /// are caught, and reported by the program's panic hook, once for each such runtime. (So in a
    /// program that aborts at panics, nothing is built before the program calls this, or
    /// [`enter_runtime`](Engine::enter_runtime).)
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::of_runtime()?;
    /// let sleep = tokio::spawn(tickless::sleep(Duration::from_secs(60)));
    /// tokio::task::yield_now().await;
    /// assert_eq!(engine.len(), 1, "it waits there");
    /// # drop(sleep);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`build_on_tokio`](crate::Builder::build_on_tokio), if this is the first use. (Code that
    /// names no engine uses the [global](Engine::global) one then.)
    pub fn of_runtime() -> Result<Engine, BuildError> {
        let runtime = Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        let known = find(runtime.id()).and_then(Known::engine);
        known.map_or_else(|| build(&runtime), Ok)
    }

    /// Makes this the current tokio runtime's own engine: see [`of_runtime`](Engine::of_runtime).
    /// The runtime keeps it until it shuts down. This is for the beginning of a program, or of a
    /// test, that wants other settings than the default.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tick = Duration::from_micros(100);
    /// Engine::builder().tick(tick).build_on_tokio()?.enter_runtime()?;
    ///
    /// tickless::sleep(Duration::from_micros(300)).await;
    /// # assert!(Engine::of_runtime()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no current tokio runtime. It has its engine already: one has entered it, or code in
    /// it has used one, before. Or the engine belongs to another runtime, or to the parent process.
    pub fn enter_runtime(&self) -> Result<(), GlobalReason> {
        let runtime = Handle::try_current().map_err(|_| GlobalReason::NoRuntime)?;
        if self.is_inherited() {
            return Err(GlobalReason::Forked);
        }
        if self.core().runtime.is_some_and(|of| of != runtime.id()) {
            return Err(GlobalReason::OfRuntime);
        }
        keep(&runtime, Some(self.clone())).map_err(|_| GlobalReason::RuntimeInUse)
    }
}

/// The engine of the current runtime: built, if this is its first use. `None`: there is no current
/// runtime, or it can have no engine.
pub(super) fn current() -> Option<EngineRef> {
    let runtime = Handle::try_current().ok()?;
    // The count is read first: what is found may stop at any time.
    let (id, stops) = (runtime.id(), STOPS.so_far());
    match FOUND.get() {
        Some((of, number, before)) if of == id && before == stops && !is_inherited(number) => {
            return Some(EngineRef::numbered(number));
        }
        _ => {}
    }
    let number = first(&runtime)?;
    FOUND.set(Some((id, number, stops)));
    Some(EngineRef::numbered(number))
}

/// Whether this is a task of a runtime that is shutting down, and will drop it. (A thread that
/// blocks is none, for a task or as one: the runtime waits for it.)
#[cold]
pub(crate) fn is_ending() -> bool {
    let Ok(runtime) = Handle::try_current() else { return false };
    if task::try_id().is_none() || blocks() {
        return false;
    }
    takes_no_task(&runtime)
}

/// Whether a runtime has shut down, or does.
fn takes_no_task(runtime: &Handle) -> bool {
    let probe = runtime.spawn(pending::<()>());
    let is_over = probe.is_finished();
    probe.abort();
    is_over
}

/// Whether the thread runs no tasks for its runtime: then tokio has nothing to run before a task
/// that yields, and wakes that at once. Otherwise it keeps the waker.
fn blocks() -> bool {
    let kept = Arc::new(KeptWaker);
    let waker = Waker::from(kept.clone());
    let _ = pin!(task::yield_now()).poll(&mut Context::from_waker(&waker));
    drop(waker);
    Arc::strong_count(&kept) == 1
}

/// As `current`, for those who keep it.
#[cfg(any(feature = "hyper", feature = "quinn", feature = "tower"))]
pub(super) fn current_engine() -> Option<Engine> {
    let runtime = Handle::try_current().ok()?;
    first(&runtime)?;
    find(runtime.id())?.engine()
}

/// As `current`, for a thread that has not found it yet.
#[cold]
fn first(runtime: &Handle) -> Option<u32> {
    let found = find(runtime.id());
    // (A runtime can only be asked for its reactor in a way that panics if there is none.)
    if found.is_some() || has_parent() || cfg!(panic = "abort") {
        return found.map(|known| known.number).filter(|number| !is_inherited(*number));
    }
    if takes_no_task(runtime) {
        return Some(ENDED);
    }
    match build(runtime) {
        Ok(engine) => Some(engine.number()),
        Err(_) => {
            let _ = keep(runtime, None);
            None
        }
    }
}

/// Builds an engine on the current runtime for the code in it, unless another thread does.
fn build(runtime: &Handle) -> Result<Engine, BuildError> {
    let built = Engine::builder().build_on_tokio()?;
    let other = keep(runtime, Some(built.clone())).err().and_then(Known::engine);
    Ok(other.unwrap_or(built))
}

/// Has the runtime keep its engine.
///
/// # Errors
/// There is one.
fn keep(runtime: &Handle, engine: Option<Engine>) -> Result<(), Known> {
    let id = runtime.id();
    let mut other = None;
    RUNTIMES.update(|table| {
        let mut table = table.cloned().unwrap_or_default();
        other = None;
        match table.iter_mut().find(|(of, _)| *of == id) {
            // None, or one of the parent's.
            Some((_, known)) if is_inherited(known.number) => *known = Known::of(&engine),
            Some((_, known)) => other = Some(known.clone()),
            None => table.push((id, Known::of(&engine))),
        }
        table
    });
    if let Some(other) = other {
        return Err(other);
    }
    let kept = KeptEngine { runtime: id, engine };
    // If the runtime is shutting down, it drops this at once.
    runtime.spawn(async move {
        let _kept = kept;
        pending::<()>().await;
    });
    Ok(())
}

/// The engine in the table.
fn find(runtime: Id) -> Option<Known> {
    RUNTIMES.with(|table| {
        let (_, known) = table?.iter().find(|(of, _)| *of == runtime)?;
        Some(known.clone())
    })
}

// === impl KeptWaker, Known, KeptEngine ===

impl Wake for KeptWaker {
    fn wake(self: Arc<Self>) {}
}

impl Known {
    fn of(engine: &Option<Engine>) -> Known {
        match engine {
            Some(engine) => {
                Known { number: engine.number(), engine: Arc::downgrade(&engine.inner) }
            }
            None => Known { number: NONE, engine: Weak::new() },
        }
    }

    /// `None`: there is none, or it has ended.
    fn engine(self) -> Option<Engine> {
        Some(Engine { inner: self.engine.upgrade()? })
    }
}

impl Drop for KeptEngine {
    fn drop(&mut self) {
        RUNTIMES.update(|table| {
            let mut table = table.cloned().unwrap_or_default();
            table.retain(|(of, _)| *of != self.runtime);
            table
        });
        let Some(engine) = self.engine.take() else { return };
        if engine.core().runtime == Some(self.runtime) {
            // (Who waits there hears that it was the runtime.)
            engine.core().end_with_runtime();
        }
    }
}
