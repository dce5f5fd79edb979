//! A pool's workers, and the state they share with the pool.
//!
//! *Owner*: workers and pool, by reference count. A worker does not own the pool. The pool ends
//! when its last clone is dropped, or at `shutdown`, and its workers end when the queue is empty.
//!
//! *Tested by*: `tests/races/dispatch/pool.rs`, `tests/races/dispatch/ends.rs`,
//! `tests/races/dispatch/inside.rs`.

use crate::dispatch::inside::{Post, at_post};
use crate::dispatch::{Party, Process, contained, work_to_the_end_for, works_for};
use crate::sync::{Arc, Counter, Nesting, Ordering};

use tickless_sync::queue::{Done, Queue};

/// The state that workers and pool share.
pub(super) struct PoolCore<T> {
    pub(super) queue: Arc<Queue<T>>,
    work: Box<dyn Fn(T) + Send + Sync>,
    /// Unique among pools.
    number: u64,
    /// The process that the workers run in. In a child of it, the queue's lock may be held for
    /// ever.
    pub(super) process: Process,
}

thread_local! {
    /// The pools whose payloads the thread is running inline, where it handed them over.
    static HELPING: Nesting<u64> = const { Nesting::new() };
}

// === impl PoolCore ===

impl<T: Send + 'static> PoolCore<T> {
    pub(super) fn new(
        queue: Queue<T>,
        work: impl Fn(T) + Send + Sync + 'static,
    ) -> Arc<PoolCore<T>> {
        static NUMBERS: Counter = Counter::new(1);
        // ORDER: Relaxed - it only has to be unique.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let process = Process::current();
        Arc::new(PoolCore { queue: Arc::new(queue), work: Box::new(work), number, process })
    }

    /// Runs payloads on a worker's thread until the queue is closed and empty.
    pub(super) fn empty_queue(self: Arc<PoolCore<T>>) {
        let run_all = || {
            let mut before = None;
            while let Some(payload) = self.queue.take(before) {
                before = Some(self.run(payload));
            }
        };
        work_to_the_end_for(self.party(), || at_post(self.clone(), run_all));
        // This may be the last reference: it drops the captures of `work`, which may panic.
        contained(|| drop(self));
    }

    /// Runs a payload on the thread that hands it over.
    pub(super) fn run_here(&self, payload: T) {
        let done = HELPING.with(|helping| helping.inside(self.number, || self.run(payload)));
        self.queue.count_inline(done);
    }

    /// Whether the calling thread is one of the pool's workers or runs one of its tasks.
    pub(super) fn is_inside(&self) -> bool {
        works_for(self.party()) || HELPING.with(|helping| helping.is_inside(&self.number))
    }

    /// The party that the workers work for.
    pub(super) fn party(&self) -> Party {
        Party::Pool(self.number)
    }

    fn run(&self, payload: T) -> Done {
        if contained(|| (self.work)(payload)) { Done::Ran } else { Done::Panicked }
    }
}

impl<T: Send + 'static> Post for PoolCore<T> {
    fn leave(&self) {
        if self.process.is_current() {
            self.queue.yield_while();
        }
    }

    fn resume(&self) {
        if self.process.is_current() {
            self.queue.come_back();
        }
    }
}
