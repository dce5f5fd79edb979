//! The service on tokio's timers, for comparison: one runtime with one worker, which drives them.
//!
//! A timer is a `Sleep` that its event loop holds. It is polled once, with a waker that runs the
//! task: no `Sleep` needs a task of the runtime, which would cost more. Dropping it cancels it.
//!
//! `Sleep` alone does not say whether a cancel or a reset came before the fire on the runtime's
//! thread. A word beside it decides: the deadline while the timer is pending, then `OVER`. A fire
//! that finds a later deadline than the present lost against a reset, which arms the timer again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Sleep, sleep_until};

use super::{Counts, THREAD_NAME, TimerEngine};

/// The timer was cancelled or its task has begun.
const OVER: u64 = u64::MAX;

/// A runtime that does nothing but time.
#[derive(Clone)]
pub(crate) struct Tokio {
    runtime: Arc<Runtime>,
    /// Deadlines in words count from here.
    epoch: Instant,
}

/// A timer and the end that the loop holds.
pub(crate) struct SleepHandle {
    sleep: Pin<Box<Sleep>>,
    waker: Waker,
    word: Arc<dyn Word>,
}

/// The end that the runtime's thread holds.
struct Alarm<F> {
    /// Nanoseconds from the epoch to the deadline, or `OVER`.
    due_ns: AtomicU64,
    epoch: Instant,
    task: F,
}

/// An [`Alarm`] of any task.
trait Word: Send + Sync {
    fn due_ns(&self) -> &AtomicU64;
}

// === impl Alarm ===

impl<F: Fn() + Send + Sync> Word for Alarm<F> {
    fn due_ns(&self) -> &AtomicU64 {
        &self.due_ns
    }
}

impl<F: Fn() + Send + Sync + 'static> Wake for Alarm<F> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Relaxed: the word alone decides, and no other memory depends on the decision.
        let mut due_ns = self.due_ns.load(Ordering::Relaxed);
        while due_ns != OVER && due_ns <= since(self.epoch, Instant::now()) {
            match self.due_ns.compare_exchange_weak(
                due_ns,
                OVER,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return (self.task)(),
                Err(seen) => due_ns = seen,
            }
        }
    }
}

// === impl SleepHandle ===

impl SleepHandle {
    /// Registers the waker; the task runs here if it is due already.
    fn register(&mut self) {
        let mut context = Context::from_waker(&self.waker);
        if self.sleep.as_mut().poll(&mut context).is_ready() {
            self.waker.wake_by_ref();
        }
    }
}

// === impl Tokio ===

impl Tokio {
    fn due_in(&self, delay: Duration) -> (Instant, u64) {
        let due = Instant::now() + delay;
        (due, since(self.epoch, due))
    }
}

impl TimerEngine for Tokio {
    const NAME: &'static str = "tokio";

    type Handle = SleepHandle;
    type Detached = SleepHandle;

    fn start() -> io::Result<Tokio> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name(THREAD_NAME).enable_time().build()?;
        Ok(Tokio { runtime: Arc::new(runtime), epoch: Instant::now() })
    }

    fn schedule(
        &self,
        delay: Duration,
        task: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<SleepHandle> {
        let (due, due_ns) = self.due_in(delay);
        let alarm = Arc::new(Alarm { due_ns: AtomicU64::new(due_ns), epoch: self.epoch, task });
        let _entered = self.runtime.enter();
        let sleep = Box::pin(sleep_until(due.into()));
        let waker = Waker::from(Arc::clone(&alarm));
        let mut handle = SleepHandle { sleep, waker, word: alarm };
        handle.register();
        Ok(handle)
    }

    fn schedule_detached(
        &self,
        delay: Duration,
        task: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<SleepHandle> {
        self.schedule(delay, task)
    }

    fn reset(&self, handle: &mut SleepHandle, delay: Duration) -> io::Result<bool> {
        let (due, due_ns) = self.due_in(delay);
        let word = handle.word.due_ns();
        let was = word.load(Ordering::Relaxed);
        // Only the runtime's thread changes the word meanwhile, and only to `OVER`.
        let moved = || word.compare_exchange(was, due_ns, Ordering::Relaxed, Ordering::Relaxed);
        if was == OVER || moved().is_err() {
            return Ok(false);
        }
        handle.sleep.as_mut().reset(due.into());
        handle.register();
        Ok(true)
    }

    fn cancel(&self, handle: SleepHandle) -> bool {
        handle.word.due_ns().swap(OVER, Ordering::Relaxed) != OVER
    }

    fn stop(self) -> io::Result<Option<Counts>> {
        // The event loops are gone, and their clones with them.
        let runtime = Arc::into_inner(self.runtime);
        let runtime = runtime.ok_or_else(|| io::Error::other("the runtime is still in use"))?;
        drop(runtime);
        Ok(None)
    }
}

fn since(epoch: Instant, moment: Instant) -> u64 {
    let since = moment.saturating_duration_since(epoch).as_nanos();
    u64::try_from(since).expect("runs are shorter than centuries")
}
