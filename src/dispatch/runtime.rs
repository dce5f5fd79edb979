//! Runs due payloads on a tokio runtime.
//!
//! *Owner*: the engine. Monitors and spawned tasks share the counters.

use std::future::{Future, poll_fn};
use std::pin::pin;

use tokio::runtime::Handle;

use crate::sync::{Arc, add_one};

use super::monitor::counts;
use super::{Batch, Handler, Monitor, Task};

/// A handler that runs each due payload as a task of its own on a tokio runtime, for
/// [`Builder::build_with_handler`](crate::Builder::build_with_handler).
///
/// The reaper spawns the task and continues, so a slow task delays no timer. The number of spawned
/// tasks is not bounded: if you need a bound, use a [`Pool`](super::Pool) or a
/// [`Channel`](super::Channel). A payload that is due after the runtime has shut down, or that has
/// not finished when it shuts down, is dropped and counted. (A closure on a blocking thread that
/// has begun runs to its end.) A panic is caught and counted.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::dispatch::OnTokio;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
/// let engine = Engine::builder().build_with_handler(OnTokio::spawn(runtime.handle().clone()))?;
///
/// let (sender, receiver) = tokio::sync::oneshot::channel();
/// engine.schedule_detached(Duration::from_millis(2), move || {
///     // Inside the runtime: `tokio::spawn` works here.
///     tokio::spawn(async move { sender.send("due") });
/// })?;
/// assert_eq!(runtime.block_on(receiver)?, "due");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The handler does not keep the runtime alive: it may be dropped before or after the engine.
pub struct OnTokio<T = Task> {
    launch: Box<dyn Fn(T, Job) + Send + Sync>,
    counts: Arc<Counts>,
}

/// Counts of the payloads that were handed to a runtime.
///
/// Each number is exact, but they are read one after another while the runtime is running.
///
/// ```
/// use tickless::dispatch::{Monitor, OnTokio, RuntimeStats};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let handler = OnTokio::spawn(runtime.handle().clone());
/// let monitor: Monitor<RuntimeStats> = handler.monitor();
/// let engine = tickless::Engine::builder().build_with_handler(handler)?;
/// assert_eq!(monitor.stats().spawned, 0, "nothing was due yet");
/// # drop(engine);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeStats {
    /// Payloads handed to the runtime.
    pub spawned: u64,
    /// Payloads that ran to the end.
    pub finished: u64,
    /// Payloads that panicked.
    pub panicked: u64,
    /// Payloads that did not run, or not to the end, because the runtime shut down.
    pub dropped: u64,
}

/// Counts how one payload ends, also if the runtime drops it.
struct Job {
    counts: Arc<Counts>,
    progress: JobStage,
}

/// How far a payload has come.
enum JobStage {
    /// It waits: to begin, or to go on.
    Waits,
    Runs,
    Finished,
}

// === impl OnTokio ===

impl OnTokio {
    /// Runs closures as tasks on the runtime's workers. They should be short, because they block
    /// their worker until they return.
    pub fn spawn(handle: Handle) -> OnTokio {
        OnTokio::spawn_with(handle, |task: Task| async move { task.run() })
    }

    /// Runs closures on the runtime's blocking threads, for closures that block or compute for
    /// long. If all of these threads are busy, further closures wait in the runtime's queue.
    pub fn spawn_blocking(handle: Handle) -> OnTokio {
        OnTokio::spawn_blocking_with(handle, Task::run)
    }
}

impl<T: Send + 'static> OnTokio<T> {
    /// Spawns the future that `work` returns for each payload. `work` is called inside the new
    /// task.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::dispatch::OnTokio;
    ///
    /// let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    /// let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    /// let remind = move |connection: u64| {
    ///     let sender = sender.clone();
    ///     async move { drop(sender.send(connection).await) }
    /// };
    /// let engine = Engine::with_handler(OnTokio::spawn_with(runtime.handle().clone(), remind))?;
    /// engine.schedule_detached(Duration::from_millis(2), 7)?;
    /// assert_eq!(runtime.block_on(receiver.recv()), Some(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_with<F: Future<Output = ()> + Send + 'static>(
        handle: Handle,
        work: impl Fn(T) -> F + Send + Sync + 'static,
    ) -> OnTokio<T> {
        let work = Arc::new(work);
        OnTokio::new(move |payload, job| {
            let work = work.clone();
            let task = async move {
                // Dropped after the payload, also if the runtime drops both.
                let mut job = job;
                job.progress = JobStage::Runs;
                {
                    let mut work = pin!(work(payload));
                    poll_fn(|cx| {
                        job.progress = JobStage::Runs;
                        let polled = work.as_mut().poll(cx);
                        if polled.is_pending() {
                            job.progress = JobStage::Waits;
                        }
                        polled
                    })
                    .await;
                }
                job.progress = JobStage::Finished;
            };
            drop(handle.spawn(task));
        })
    }

    /// Calls `work` with each payload on the runtime's blocking threads.
    pub fn spawn_blocking_with(
        handle: Handle,
        work: impl Fn(T) + Send + Sync + 'static,
    ) -> OnTokio<T> {
        let work = Arc::new(work);
        OnTokio::new(move |payload, job| {
            let work = work.clone();
            let task = move || {
                let mut job = job;
                job.progress = JobStage::Runs;
                work(payload);
                job.progress = JobStage::Finished;
            };
            drop(handle.spawn_blocking(task));
        })
    }

    fn new(launch: impl Fn(T, Job) + Send + Sync + 'static) -> OnTokio<T> {
        OnTokio { launch: Box::new(launch), counts: Arc::default() }
    }

    /// Returns a view of the counts, which stays readable after the handler was given away.
    pub fn monitor(&self) -> Monitor<RuntimeStats> {
        self.counts.monitor()
    }
}

impl<T> Handler<T> for OnTokio<T> {
    fn fire(&self, batch: Batch<'_, T>) {
        for payload in batch {
            add_one(&self.counts.spawned);
            let job = Job { counts: self.counts.clone(), progress: JobStage::Waits };
            (self.launch)(payload, job);
        }
    }
}

debug! { impl[T] OnTokio[T] { stats = |this| this.counts.read() } }

// === impl Job ===

impl Drop for Job {
    fn drop(&mut self) {
        add_one(match self.progress {
            JobStage::Finished => &self.counts.finished,
            JobStage::Runs => &self.counts.panicked,
            // The thread may be in a panic of its own.
            JobStage::Waits => &self.counts.dropped,
        });
    }
}

counts! { RuntimeStats { spawned, finished, panicked, dropped } }
