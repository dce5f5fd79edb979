//! Runs due payloads on a pool of rayon's.
//!
//! *Owner*: the engine. Monitors and spawned tasks share the counters.
//!
//! *Tested by*: `tests/suite/dispatch/rayon.rs`.

use rayon_core::ThreadPool;

use crate::sync::{Arc, add_one};

use super::monitor::counts;
use super::{Batch, Handler, Monitor, Task, contained};

/// A handler that runs each due payload as a task of its own on a pool of rayon's threads, for
/// [`Builder::build_with_handler`](crate::Builder::build_with_handler).
///
/// The reaper spawns the task and continues, so a slow task delays no timer. The number of spawned
/// tasks is not bounded, and they begin in no particular order: if you need a bound, use a
/// [`Pool`](super::Pool) or a [`Channel`](super::Channel). A panic is caught and counted; the
/// pool's own panic handler does not see it. One allocation for each task.
///
/// The engine waits for no task, so a task may stop it. When the engine has stopped, it drops the
/// handler, and with it the handler's share of the pool. Rayon ends a pool that nobody shares when
/// all tasks that were spawned have run, and nobody waits for that.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use std::time::Duration;
/// use rayon_core::ThreadPoolBuilder; // or `rayon`'s, which is the same
/// use tickless::Engine;
/// use tickless::dispatch::OnRayon;
///
/// let pool = Arc::new(ThreadPoolBuilder::new().num_threads(2).build()?);
/// let engine = Engine::builder().build_with_handler(OnRayon::spawn(pool))?;
/// let (sender, receiver) = mpsc::channel();
/// engine.schedule_detached(Duration::from_millis(2), move || {
///     // Inside the pool: parallel iterators and `join` use it here.
///     let _ = sender.send(rayon_core::current_num_threads());
/// })?;
/// assert_eq!(receiver.recv()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OnRayon<T = Task> {
    /// `None`: the pool that [`global`](OnRayon::global) names.
    pool: Option<Arc<ThreadPool>>,
    work: Arc<dyn Fn(T) + Send + Sync>,
    counts: Arc<Counts>,
}

/// Counts of the payloads that were handed to a pool of rayon's.
///
/// Each number is exact, but they are read one after another while the pool is running.
///
/// ```
/// use tickless::dispatch::{Monitor, OnRayon, RayonStats};
///
/// let handler = OnRayon::global();
/// let monitor: Monitor<RayonStats> = handler.monitor();
/// let engine = tickless::Engine::builder().build_with_handler(handler)?;
/// assert_eq!(monitor.stats().spawned, 0, "nothing was due yet");
/// # drop(engine);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RayonStats {
    /// Payloads handed to the pool.
    pub spawned: u64,
    /// Payloads that ran to the end.
    pub finished: u64,
    /// Payloads that panicked.
    pub panicked: u64,
}

// === impl OnRayon ===

impl OnRayon {
    /// Runs closures on `pool`.
    pub fn spawn(pool: Arc<ThreadPool>) -> OnRayon {
        OnRayon::spawn_with(pool, Task::run)
    }

    /// Runs closures on the current pool if a thread of rayon's runs the engine's turn, or else on
    /// rayon's global pool, which is started now if it was not yet. (On a thread of another pool,
    /// it is started with the first payload.)
    ///
    /// # Panics
    /// The global pool cannot be started.
    pub fn global() -> OnRayon {
        OnRayon::global_with(Task::run)
    }
}

impl<T: Send + 'static> OnRayon<T> {
    /// Calls `work` with each payload on `pool`.
    ///
    /// ```
    /// use std::sync::{Arc, mpsc};
    /// use std::time::Duration;
    /// use rayon_core::ThreadPoolBuilder;
    /// use tickless::Engine;
    /// use tickless::dispatch::OnRayon;
    ///
    /// let pool = Arc::new(ThreadPoolBuilder::new().num_threads(2).build()?);
    /// let (sender, receiver) = mpsc::channel();
    /// let square = move |number: u64| drop(sender.send(number * number));
    /// let engine = Engine::with_handler(OnRayon::spawn_with(pool, square))?;
    /// engine.schedule_detached(Duration::from_millis(2), 7)?;
    /// assert_eq!(receiver.recv()?, 49);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_with(
        pool: Arc<ThreadPool>,
        work: impl Fn(T) + Send + Sync + 'static,
    ) -> OnRayon<T> {
        OnRayon { pool: Some(pool), work: Arc::new(work), counts: Arc::default() }
    }

    /// Calls `work` with each payload, on the pool that [`global`](OnRayon::global) names.
    ///
    /// # Panics
    /// The global pool cannot be started.
    pub fn global_with(work: impl Fn(T) + Send + Sync + 'static) -> OnRayon<T> {
        // Here a panic reaches the user; in the reaper it would cost a payload.
        rayon_core::current_num_threads();
        OnRayon { pool: None, work: Arc::new(work), counts: Arc::default() }
    }

    /// Returns a view of the counts, which stays readable after the handler was given away.
    pub fn monitor(&self) -> Monitor<RayonStats> {
        self.counts.monitor()
    }
}

impl<T: Send + 'static> Handler<T> for OnRayon<T> {
    fn fire(&self, batch: Batch<'_, T>) {
        for payload in batch {
            add_one(&self.counts.spawned);
            let (work, counts) = (self.work.clone(), self.counts.clone());
            let task = move || {
                let is_finished = contained(|| work(payload));
                // What it captured may be the user's last reference to something.
                contained(|| drop(work));
                add_one(if is_finished { &counts.finished } else { &counts.panicked });
            };
            match &self.pool {
                Some(pool) => pool.spawn(task),
                None => rayon_core::spawn(task),
            }
        }
    }
}

debug! { impl[T] OnRayon[T] { stats = |this| this.counts.read() } }

counts! { RayonStats { spawned, finished, panicked } }
