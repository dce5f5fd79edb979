//! The queue between the reapers and a pool's workers.
//!
//! One lock, held for a few moves of payloads and never while code of the user runs. A batch is
//! pushed at once. Workers take one payload at a time, so that no payload waits behind a slow one
//! while another worker is free. The lock is held while payloads are pulled out of a [`Source`].
//!
//! *Owner*: any thread. A thread that only looks takes no lock: it reads a record of what was
//! counted. *Invariants*
//! - Every payload that was pushed is taken: workers empty the queue after it was closed, too.
//! - A producer that waits for room gets it as soon as there is any, or learns that no worker is
//!   left to make it. While producers wait and there is room, one of them is *called*: it was
//!   woken, and has not had the lock since. A worker that makes room calls one unless one is called
//!   already, and so does a producer that leaves room to others. So workers that are quicker than
//!   the wake-up of a thread cost one for several payloads, and not one for each.
//! - Producers that come later leave the room to those that wait.
//! - A worker that waits for a reaper (because its task stops an engine, say) yields first.
//!   When no worker is left, producers that wait for room are woken and told, and so is one that
//!   waits for the workers' end.
//!
//! *Tested by*: `loom-tests/tests/queue.rs`, `tests/races/dispatch/pool.rs`,
//! `tests/races/dispatch/load.rs`.

use std::collections::VecDeque;

use crate::{Condvar, Quiet, QuietMutex, Record};

/// A bounded queue that workers empty.
pub struct Queue<T> {
    bound: usize,
    // LOCK(QUEUE): engine: push, count_inline, count_dropped, close, wait_for_workers; stopper:
    // close, wait_for_workers; worker: take, yield_while, come_back; caller: push, count_inline,
    // count_dropped, close, wait_for_workers.
    state: QuietMutex<State<T>>,
    /// Notified for workers when there is a payload to take, or when the queue is closed.
    work: Condvar,
    /// Notified for producers when there is room, when no worker is left to make any, or when the
    /// queue is closed; and for who waits for the workers, when none is left.
    room: Condvar,
    /// What was counted, for those who look: the fields of a [`PoolStats`].
    record: Record<7>,
}

struct State<T> {
    items: VecDeque<T>,
    is_over: bool,
    /// Workers that sleep, or were woken and do not have the lock yet.
    idle: usize,
    /// Workers that have neither ended nor yielded.
    present: usize,
    /// Workers that have yielded.
    yielded: usize,
    /// Producers that wait for room.
    waiting: usize,
    /// One of them was woken because there is room, and does not have the lock yet.
    is_called: bool,
    stats: PoolStats,
}

/// A source of payloads.
pub trait Source {
    /// The payloads.
    type Item;

    /// The number of payloads left.
    fn left(&self) -> usize;

    /// Takes the next payload. The queue calls this under its lock, so it must not run code of the
    /// user.
    fn pull(&mut self) -> Option<Self::Item>;

    /// The caller waits for room, until this is called with `false`.
    fn waits(&mut self, _is_waiting: bool) {}
}

/// Whether a producer waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It waits while there is a worker that may make room.
    Waits,
    /// It does not wait.
    Leaves,
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// All payloads were pushed.
    All,
    /// There was no room for the rest. For a producer that waits: no worker was left to make any.
    Full,
    /// The queue was closed and takes no more payloads.
    Over,
}

/// How running a payload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It returned.
    Ran,
    /// It panicked.
    Panicked,
}

/// What a pool has counted since it was built.
///
/// All numbers are read at one moment. Each payload that was handed to the pool is counted as
/// either `queued`, `running`, `ran`, `ran_inline` or `dropped` (one that runs inline, when it has
/// ended). Payloads that [`submit`] returned are not counted.
///
/// ```
/// use tickless::dispatch::{Full, Pool};
///
/// let pool = Pool::builder(Full::Block).build_typed(|n: u32| println!("{n}"))?;
/// for n in 0..3 {
///     pool.submit(n)?;
/// }
/// pool.shutdown()?;
/// assert_eq!((pool.stats().ran, pool.stats().dropped), (3, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`submit`]: https://docs.rs/tickless/latest/tickless/dispatch/struct.Pool.html#method.submit
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Payloads that wait for a worker.
    pub queued: usize,
    /// Payloads that workers are running.
    pub running: usize,
    /// Payloads that workers have run, including those that panicked.
    pub ran: u64,
    /// Payloads that ran on the thread that handed them over, including those that panicked:
    /// because the queue was full ([`Full::RunInline`]), or because no worker would have made room
    /// ([`Full::Block`]).
    ///
    /// [`Full::RunInline`]: https://docs.rs/tickless/latest/tickless/dispatch/enum.Full.html
    /// [`Full::Block`]: https://docs.rs/tickless/latest/tickless/dispatch/enum.Full.html
    pub ran_inline: u64,
    /// Payloads that were due and never ran: because the queue was full
    /// ([`Full::Drop`]), or because the pool had been shut down.
    ///
    /// [`Full::Drop`]: https://docs.rs/tickless/latest/tickless/dispatch/enum.Full.html
    pub dropped: u64,
    /// Payloads that ran and panicked.
    pub panicked: u64,
    /// The highest number of payloads that waited at the same time.
    pub longest_queue: usize,
}

// === impl Source ===

impl<T> Source for Option<T> {
    type Item = T;

    fn left(&self) -> usize {
        usize::from(self.is_some())
    }

    fn pull(&mut self) -> Option<T> {
        self.take()
    }
}

// === impl Queue ===

impl<T> Queue<T> {
    /// An empty queue for at most `bound` payloads and `workers` workers, all of which will come.
    pub fn new(bound: usize, workers: usize) -> Queue<T> {
        let state = State {
            items: VecDeque::new(),
            is_over: false,
            idle: 0,
            present: workers,
            yielded: 0,
            waiting: 0,
            is_called: false,
            stats: PoolStats::default(),
        };
        let (work, room) = (Condvar::new(), Condvar::new());
        Queue { bound, state: QuietMutex::new(state), work, room, record: Record::new() }
    }

    /// Pushes as many payloads as there is room for, in order. With [`Patience::Waits`], waits for
    /// room for the rest. Payloads that were not pushed stay in `source`.
    pub fn push(&self, source: &mut impl Source<Item = T>, patience: Patience) -> Pushed {
        let mut state = self.state.lock();
        let mut has_waited = false;
        loop {
            if state.is_over {
                return Pushed::Over;
            }
            let room = self.bound - state.items.len();
            // A new producer lets waiting producers go first.
            let others_first = state.waiting > 0 && !has_waited;
            let pushed = if others_first { 0 } else { room.min(source.left()) };
            state.items.extend((0..pushed).filter_map(|_| source.pull()));
            state.stats.longest_queue = state.stats.longest_queue.max(state.items.len());
            if pushed > 0 {
                self.record.write(state.numbers());
            }
            let is_left = source.left() > 0;
            let waits = is_left && patience == Patience::Waits && state.present > 0;
            let sleepers = state.idle.min(pushed);
            if !waits {
                let calls = state.items.len() < self.bound && state.calls();
                drop(state);
                self.wake(sleepers);
                self.call(calls);
                return if is_left { Pushed::Full } else { Pushed::All };
            }
            self.wake(sleepers);
            state.waiting += 1;
            state = self.state.wait(&self.room, state);
            state.waiting -= 1;
            state.is_called = false;
            has_waited = true;
        }
    }

    /// Takes a payload for a worker, and waits until there is one. `before` says how the worker's
    /// previous payload ended. `None`: the queue is closed and empty, and the worker ends.
    pub fn take(&self, before: Option<Done>) -> Option<T> {
        let mut state = self.state.lock();
        if let Some(done) = before {
            state.stats.running -= 1;
            state.stats.ran += 1;
            state.stats.panicked += u64::from(done == Done::Panicked);
        }
        loop {
            if let Some(item) = state.items.pop_front() {
                state.stats.running += 1;
                self.record.write(state.numbers());
                let calls = state.calls();
                drop(state);
                self.call(calls);
                return Some(item);
            }
            self.record.write(state.numbers());
            if state.is_over {
                state.present -= 1;
                self.leave(state);
                return None;
            }
            state.idle += 1;
            state = self.state.wait(&self.work, state);
            state.idle -= 1;
        }
    }

    /// A worker yields, because it is going to wait for a producer. Until it comes back, no
    /// producer waits for it.
    pub fn yield_while(&self) {
        let mut state = self.state.lock();
        state.present -= 1;
        state.yielded += 1;
        self.leave(state);
    }

    /// A worker has ended or yielded. If nobody is left, those that wait for workers are told.
    fn leave(&self, state: Quiet<'_, State<T>>) {
        let is_last = state.present == 0;
        drop(state);
        if is_last {
            self.room.notify_all();
        }
    }

    /// A worker that has yielded is back.
    pub fn come_back(&self) {
        let mut state = self.state.lock();
        state.present += 1;
        state.yielded -= 1;
    }

    /// Closes the queue: it takes no more payloads, and workers still empty it.
    pub fn close(&self) {
        self.state.lock().is_over = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// After the queue was closed: waits until each worker has ended or yielded. One that has
    /// yielded may wait for the caller. Returns `true` if all have ended.
    pub fn wait_for_workers(&self) -> bool {
        let mut state = self.state.lock();
        while state.present > 0 {
            state = self.state.wait(&self.room, state);
        }
        state.yielded == 0
    }

    /// Counts a payload that its producer ran itself.
    pub fn count_inline(&self, done: Done) {
        let mut state = self.state.lock();
        state.stats.ran_inline += 1;
        state.stats.panicked += u64::from(done == Done::Panicked);
        self.record.write(state.numbers());
    }

    /// Counts payloads that were dropped instead of pushed.
    pub fn count_dropped(&self, n: usize) {
        let mut state = self.state.lock();
        state.stats.dropped += n as u64;
        self.record.write(state.numbers());
    }

    /// Returns what was counted so far.
    pub fn stats(&self) -> PoolStats {
        let [queued, running, ran, ran_inline, dropped, panicked, longest] = self.record.read();
        let [queued, running, longest_queue] = [queued, running, longest].map(|n| n as usize);
        PoolStats { queued, running, ran, ran_inline, dropped, panicked, longest_queue }
    }

    /// Wakes a producer that waits for room, if one is to be called.
    fn call(&self, calls: bool) {
        if calls {
            self.room.notify_one();
        }
    }

    fn wake(&self, sleepers: usize) {
        for _ in 0..sleepers {
            self.work.notify_one();
        }
    }
}

debug! { impl[T] Queue[T] { bound } }

// === impl State ===

impl<T> State<T> {
    /// What was counted, in the order of the fields of a [`PoolStats`].
    fn numbers(&self) -> [u64; 7] {
        let PoolStats { running, ran, ran_inline, dropped, panicked, longest_queue, .. } =
            self.stats;
        let [queued, running, longest] =
            [self.items.len(), running, longest_queue].map(|n| n as u64);
        [queued, running, ran, ran_inline, dropped, panicked, longest]
    }

    /// There is room: whether a producer is to be called. It counts as called from now on.
    fn calls(&mut self) -> bool {
        let calls = self.waiting > 0 && !self.is_called;
        self.is_called |= calls;
        calls
    }
}
