//! The builder of a pool.

use crate::dispatch::Task;
use crate::os::block_signals;
use crate::sync::{Arc, Mutex, thread};

use super::core::PoolCore;
use super::{Full, Inner, MAX_THREADS, Pool, PoolError};
use tickless_sync::queue::Queue;

/// Configures a [`Pool`].
///
/// ```
/// use tickless::dispatch::{Full, Pool};
///
/// let pool = Pool::builder(Full::RunInline)
///     .threads(4)
///     .queue_bound(10_000)
///     .thread_name("timeouts")
///     .build()?;
/// # drop(pool);
/// # Ok::<(), tickless::dispatch::PoolError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct PoolBuilder {
    full: Full,
    threads: Option<usize>,
    queue_bound: usize,
    thread_name: String,
}

const QUEUE_BOUND: usize = 1024;

// === impl PoolBuilder ===

impl PoolBuilder {
    /// The maximum number of threads of a pool.
    pub const MAX_THREADS: usize = MAX_THREADS;

    /// Creates a builder with the defaults: one thread per core and a queue of 1024 payloads. What
    /// happens when the queue is full has no default.
    pub fn new(full: Full) -> PoolBuilder {
        PoolBuilder {
            full,
            threads: None,
            queue_bound: QUEUE_BOUND,
            thread_name: "tickless-pool".to_owned(),
        }
    }

    /// Sets the number of threads, from 1 to 1024. Default: one per core.
    ///
    /// This is also the number of payloads that run at the same time, besides those that run on
    /// reapers because the queue is full. If tasks wait (for a disk, say) rather than compute, set
    /// more threads than there are cores. With one thread, payloads of the queue run in the order
    /// in which they were handed over.
    pub fn threads(mut self, threads: usize) -> PoolBuilder {
        self.threads = Some(threads);
        self
    }

    /// Sets how many payloads may wait for a thread, at least 1. Default: 1024.
    ///
    /// A longer queue absorbs longer bursts, but payloads may wait longer in it. Memory is
    /// allocated as the queue grows (32 bytes for a closure), and kept.
    pub fn queue_bound(mut self, queue_bound: usize) -> PoolBuilder {
        self.queue_bound = queue_bound;
        self
    }

    /// Sets the name of the threads; a dash and a number are appended. Default: `tickless-pool`.
    /// The name must not contain a NUL. Systems may show only its beginning (Linux: 15 bytes).
    pub fn thread_name(mut self, name: impl Into<String>) -> PoolBuilder {
        self.thread_name = name.into();
        self
    }

    /// Builds a pool that runs closures, as a handler for
    /// [`Builder::build_with_handler`](crate::Builder::build_with_handler).
    ///
    /// # Errors
    /// A setting is out of bounds, or a thread could not be started.
    pub fn build(self) -> Result<Pool, PoolError> {
        self.build_typed(Task::run)
    }

    /// Builds a pool that calls `work` with each payload, as a handler for
    /// [`Engine::with_handler`](crate::Engine::with_handler). A `Pool<Due<T>>` is a handler for
    /// payloads of type `T`, and passes their deadlines to `work`.
    ///
    /// # Errors
    /// A setting is out of bounds, or a thread could not be started.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::dispatch::{Full, Pool};
    /// use tickless::{Due, Engine};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let hang_up = move |due: Due<u64>| {
    ///     let _ = sender.send((due.payload, due.deadline.elapsed()));
    /// };
    /// let pool = Pool::builder(Full::Block).build_typed(hang_up)?;
    /// let engine: Engine<u64> = Engine::with_handler(pool)?;
    /// engine.schedule_detached(Duration::from_millis(2), 7)?;
    /// let (connection, late) = receiver.recv()?;
    /// println!("connection {connection} is closed, {late:?} late");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_typed<T: Send + 'static>(
        self,
        work: impl Fn(T) + Send + Sync + 'static,
    ) -> Result<Pool<T>, PoolError> {
        let PoolBuilder { full, threads, queue_bound, thread_name } = self;
        let per_core = || thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let threads = threads.unwrap_or_else(per_core);
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(PoolError::Threads { threads });
        }
        if queue_bound == 0 {
            return Err(PoolError::QueueBound);
        }
        if thread_name.contains('\0') {
            return Err(PoolError::ThreadName { name: thread_name });
        }
        let core = PoolCore::new(Queue::new(queue_bound, threads), work);
        let pool = Pool { inner: Arc::new(Inner { core, full, workers: Mutex::default() }) };
        for index in 0..threads {
            let (core, name) = (pool.inner.core.clone(), format!("{thread_name}-{index}"));
            let _blocked = block_signals();
            let worker = thread::Builder::new().name(name).spawn(move || core.empty_queue());
            // On an error, the pool is dropped, which ends the workers that were started.
            pool.inner.workers().push(worker.map_err(PoolError::Thread)?);
        }
        Ok(pool)
    }
}
