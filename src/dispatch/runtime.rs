//! A tokio runtime that what is due runs on.
//!
//! *Owner*: the engine; what is counted is shared with monitors and with what runs.

use std::fmt;
use std::future::Future;

use tokio::runtime::Handle;

use crate::sync::{Arc, Counter, Ordering, thread};

use super::{Batch, Handler, Monitor, Task};

/// Runs what is due on a tokio runtime, each payload as a task of its own: a handler for
/// [`Builder::build_with_handler`](crate::Builder::build_with_handler) and
/// [`Builder::build_typed`](crate::Builder::build_typed).
///
/// The reaper spawns and goes on; how slow a task is holds up no timer. There is no bound to how
/// many are spawned: where one is needed, take a [`Pool`](super::Pool) or a
/// [`Channel`](super::Channel). What is due when the runtime has shut down, or is not finished when
/// it does, is dropped and counted. A panic is counted and goes no further.
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
/// The runtime is not kept going by this; it may be dropped before the engine or after it.
pub struct OnTokio<T = Task> {
    launch: Box<dyn Fn(T, Job) + Send + Sync>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    spawned: Counter,
    finished: Counter,
    panicked: Counter,
    dropped: Counter,
}

/// What became of what was handed to a runtime.
///
/// Each number is right by itself; they are read one after another while the runtime goes on.
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
    /// Of these, payloads that were run to the end.
    pub finished: u64,
    /// Payloads that panicked.
    pub panicked: u64,
    /// Payloads that were not run, or not to the end, because the runtime shut down.
    pub dropped: u64,
}

/// Counts how one payload ends, whoever drops it where.
struct Job {
    counts: Arc<Counts>,
    is_finished: bool,
}

// === impl OnTokio ===

impl OnTokio {
    /// Runs closures as tasks of the runtime, on its workers: they should be short, as anything
    /// should be that does not await.
    ///
    /// ```
    /// use tickless::Engine;
    /// use tickless::dispatch::OnTokio;
    ///
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let dispatcher = OnTokio::spawn(runtime.handle().clone());
    /// let engine = Engine::builder().build_with_handler(dispatcher)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn(handle: Handle) -> OnTokio {
        OnTokio::spawn_with(handle, |task: Task| async move { task.run() })
    }

    /// Runs closures where blocking is allowed, on the runtime's blocking threads: for those that
    /// wait or compute for long. More than the runtime has such threads for wait in its queue.
    ///
    /// ```
    /// use tickless::Engine;
    /// use tickless::dispatch::OnTokio;
    ///
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let dispatcher = OnTokio::spawn_blocking(runtime.handle().clone());
    /// let engine = Engine::builder().build_with_handler(dispatcher)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_blocking(handle: Handle) -> OnTokio {
        OnTokio::spawn_blocking_with(handle, Task::run)
    }
}

impl<T: Send + 'static> OnTokio<T> {
    /// Spawns the future that `work` makes of each payload. (It is made inside the new task.)
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
    pub fn spawn_with<F>(
        handle: Handle,
        work: impl Fn(T) -> F + Send + Sync + 'static,
    ) -> OnTokio<T>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let work = Arc::new(work);
        OnTokio::new(move |payload, job| {
            let work = work.clone();
            let task = async move {
                // Dropped after the payload, also where the runtime drops both.
                let job = job;
                work(payload).await;
                job.finish();
            };
            drop(handle.spawn(task));
        })
    }

    /// Calls `work` with each payload on the runtime's blocking threads.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::dispatch::OnTokio;
    ///
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let work = move |n: u64| drop(sender.send(n * n));
    /// let dispatcher = OnTokio::spawn_blocking_with(runtime.handle().clone(), work);
    /// let engine = Engine::with_handler(dispatcher)?;
    /// engine.schedule_detached(Duration::from_millis(2), 7)?;
    /// assert_eq!(receiver.recv(), Ok(49));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_blocking_with(
        handle: Handle,
        work: impl Fn(T) + Send + Sync + 'static,
    ) -> OnTokio<T> {
        let work = Arc::new(work);
        OnTokio::new(move |payload, job| {
            let work = work.clone();
            let task = move || {
                let job = job;
                work(payload);
                job.finish();
            };
            drop(handle.spawn_blocking(task));
        })
    }

    fn new(launch: impl Fn(T, Job) + Send + Sync + 'static) -> OnTokio<T> {
        OnTokio { launch: Box::new(launch), counts: Arc::default() }
    }

    /// A view of what became of what was handed over.
    ///
    /// ```
    /// use tickless::Engine;
    /// use tickless::dispatch::{OnTokio, RuntimeStats};
    ///
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let dispatcher = OnTokio::spawn(runtime.handle().clone());
    /// let monitor = dispatcher.monitor();
    /// let engine = Engine::builder().build_with_handler(dispatcher)?;
    /// assert_eq!(monitor.stats(), RuntimeStats::default());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn monitor(&self) -> Monitor<RuntimeStats> {
        let counts = self.counts.clone();
        Monitor::new(move || counts.read())
    }
}

impl<T> Handler<T> for OnTokio<T> {
    fn fire(&self, batch: Batch<'_, T>) {
        for payload in batch {
            add(&self.counts.spawned);
            let job = Job { counts: self.counts.clone(), is_finished: false };
            (self.launch)(payload, job);
        }
    }
}

impl<T> fmt::Debug for OnTokio<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnTokio").field("stats", &self.counts.read()).finish_non_exhaustive()
    }
}

// === impl Job ===

impl Job {
    fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        add(match self.is_finished {
            true => &self.counts.finished,
            false if thread::panicking() => &self.counts.panicked,
            false => &self.counts.dropped,
        });
    }
}

// === impl Counts ===

impl Counts {
    fn read(&self) -> RuntimeStats {
        // ORDER: Relaxed - as in `add`.
        let read = |count: &Counter| count.load(Ordering::Relaxed);
        RuntimeStats {
            spawned: read(&self.spawned),
            finished: read(&self.finished),
            panicked: read(&self.panicked),
            dropped: read(&self.dropped),
        }
    }
}

fn add(count: &Counter) {
    // ORDER: Relaxed - a number for whoever asks.
    count.fetch_add(1, Ordering::Relaxed);
}
