//! The queue between the reapers and a pool's workers.
//!
//! One lock, held for a few moves of payloads, never while code of the user runs: a batch is pushed
//! at once, workers take one payload at a time, so that none stands behind a slow one while another
//! worker is free. The lock is held while payloads are pulled out of a [`Source`], which is why
//! that is not an iterator: the iterator of a batch calls the callbacks of slow tasks.
//!
//! *Owner*: everybody. *Invariants*
//! - What was pushed is taken: also when the queue is over, workers leave it empty.
//! - A producer that waits for room gets it, or is told that nobody is there to make any. It waits
//!   only while more than half of the queue is full, and all who wait are woken when workers have
//!   got down to that half: so nobody begins to wait when the waking is past. (At each payload
//!   would do as well, and cost a switch of threads per payload.)
//! - A worker that waits for a reaper (because its task stops an engine, say) steps aside first.
//!   When no worker is left, those who wait for room are woken and told.
//!
//! *Tested by*: `loom-tests/tests/queue.rs`, `tests/dispatch_pool.rs`, `tests/dispatch_races.rs`.

use std::collections::VecDeque;
use std::fmt;

use crate::sync::{Condvar, Quiet, QuietMutex};

/// A bounded queue that workers empty.
pub struct Queue<T> {
    bound: usize,
    state: QuietMutex<State<T>>,
    /// Rung for workers when there is something to take, or never will be again.
    work: Condvar,
    /// Rung for producers when there is room, or nobody to make any.
    room: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    is_over: bool,
    /// Workers asleep, or woken and not yet here.
    idle: usize,
    /// Workers that have neither left nor stepped aside.
    present: usize,
    /// Producers that wait for room.
    waiting: usize,
    counters: Counters,
}

/// Where payloads come from.
pub trait Source {
    /// What is pulled out.
    type Item;

    /// How many are left.
    fn left(&self) -> usize;

    /// Pulls the next one out. The queue calls this under its lock, so it runs no code of the user.
    fn pull(&mut self) -> Option<Self::Item>;

    /// Does whatever else is to be done about those that were pulled out. The queue calls this
    /// after each push, with nothing locked: here code of the user may run, and use the queue.
    fn settle(&mut self) {}
}

/// Whether a producer waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It does, while there is a worker who may make some.
    Waits,
    /// It does not.
    Leaves,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// All of it was pushed.
    All,
    /// There was no room for the rest; or, for one who waits, nobody to make any.
    Full,
    /// The queue is over: nothing is pushed any more.
    Over,
}

/// How a payload was done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It ran.
    Ran,
    /// It panicked.
    Panicked,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Payloads in the queue.
    pub queued: usize,
    /// Payloads that workers have taken and not done with.
    pub running: usize,
    /// Payloads that workers are done with.
    pub done: u64,
    /// Payloads that their producer ran itself.
    pub ran_inline: u64,
    /// Payloads that were not taken.
    pub dropped: u64,
    /// Of those done with by anybody: those that panicked.
    pub panicked: u64,
    /// The most that were in the queue at a time.
    pub longest: usize,
}

// === impl Queue ===

impl<T> Queue<T> {
    /// An empty queue for at most `bound` payloads and so many workers, all of which will come.
    pub fn new(bound: usize, workers: usize) -> Queue<T> {
        let state = State {
            items: VecDeque::new(),
            is_over: false,
            idle: 0,
            present: workers,
            waiting: 0,
            counters: Counters::default(),
        };
        Queue { bound, state: QuietMutex::new(state), work: Condvar::new(), room: Condvar::new() }
    }

    /// Pushes what there is room for, in order; with patience, waits for room for the rest. What
    /// is left is left in `source`.
    pub fn push(&self, source: &mut impl Source<Item = T>, patience: Patience) -> Pushed {
        let pushed = self.push_unsettled(source, patience);
        source.settle();
        pushed
    }

    fn push_unsettled(&self, source: &mut impl Source<Item = T>, patience: Patience) -> Pushed {
        let mut state = self.lock();
        let mut has_waited = false;
        loop {
            if state.is_over {
                return Pushed::Over;
            }
            let room = self.bound - state.items.len();
            // Whoever comes while others wait lets them go first, unless they are woken already.
            let others_first = state.waiting > 0 && !has_waited && !self.has_half(&state);
            let pushed = if others_first { 0 } else { room.min(source.left()) };
            state.items.extend((0..pushed).filter_map(|_| source.pull()));
            state.counters.longest = state.counters.longest.max(state.items.len());
            let is_left = source.left() > 0;
            let waits = is_left && patience == Patience::Waits && state.present > 0;
            let sleepers = state.idle.min(pushed);
            if !waits {
                drop(state);
                self.wake(sleepers);
                return if is_left { Pushed::Full } else { Pushed::All };
            }
            self.wake(sleepers);
            state.waiting += 1;
            state = self.state.wait(&self.room, state);
            state.waiting -= 1;
            has_waited = true;
        }
    }

    /// Takes a payload, for a worker, who says how it was done with the one before. Waits for one.
    /// `None`: the queue is over and empty, and the worker leaves.
    pub fn take(&self, before: Option<Done>) -> Option<T> {
        let mut state = self.lock();
        if let Some(done) = before {
            state.counters.running -= 1;
            state.counters.done += 1;
            state.counters.panicked += u64::from(done == Done::Panicked);
        }
        loop {
            if let Some(item) = state.items.pop_front() {
                state.counters.running += 1;
                let is_half = state.waiting > 0 && state.items.len() == self.bound / 2;
                drop(state);
                if is_half {
                    self.room.notify_all();
                }
                return Some(item);
            }
            if state.is_over {
                state.present -= 1;
                return None;
            }
            state.idle += 1;
            state = self.state.wait(&self.work, state);
            state.idle -= 1;
        }
    }

    /// A worker is going to wait for a producer: until it comes back, nobody waits for it.
    pub fn yield_while(&self) {
        let mut state = self.lock();
        state.present -= 1;
        let is_last = state.present == 0;
        drop(state);
        if is_last {
            self.room.notify_all();
        }
    }

    /// A worker that has stepped aside is back.
    pub fn come_back(&self) {
        self.lock().present += 1;
    }

    /// Nothing is pushed from here on; what is in the queue is still taken.
    pub fn close(&self) {
        self.lock().is_over = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Counts a payload that its producer ran itself.
    pub fn count_inline(&self, done: Done) {
        let counters = &mut self.lock().counters;
        counters.ran_inline += 1;
        counters.panicked += u64::from(done == Done::Panicked);
    }

    /// Counts payloads that were not taken.
    pub fn count_dropped(&self, n: usize) {
        self.lock().counters.dropped += n as u64;
    }

    /// What was counted so far, all at one moment.
    pub fn counters(&self) -> Counters {
        let state = self.lock();
        Counters { queued: state.items.len(), ..state.counters }
    }

    /// Whether at least half of the queue is free.
    fn has_half(&self, state: &State<T>) -> bool {
        state.items.len() <= self.bound / 2
    }

    fn wake(&self, sleepers: usize) {
        for _ in 0..sleepers {
            self.work.notify_one();
        }
    }

    fn lock(&self) -> Quiet<'_, State<T>> {
        self.state.lock()
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("bound", &self.bound).finish_non_exhaustive()
    }
}
