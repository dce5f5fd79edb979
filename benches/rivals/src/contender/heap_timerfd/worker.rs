//! A heap of timers, and the worker that owns one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use super::alarm::Alarm;
use crate::heap::Entry;
use crate::sink;

pub(super) const PENDING: u8 = 0;
pub(super) const FIRED: u8 = 1;
pub(super) const CANCELLED: u8 = 2;

/// Below so many timers, the cancelled may stay.
const FEW: usize = 64;

/// A timer in a heap.
#[derive(Debug)]
pub(super) struct Timer {
    token: u64,
    state: Arc<AtomicU8>,
}

/// A heap for one thread at a time.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Entry<Timer>>>,
    /// Of those in the heap: never less than there are, as long as everyone counts.
    pub(super) cancelled: usize,
}

/// The heap of a thread, and what the thread sleeps on.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) timers: Timers,
    alarm: Alarm,
}

// === impl Timer ===

impl Timer {
    /// Fires unless it was cancelled.
    pub(super) fn fire(self) {
        if settle(&self.state, FIRED) {
            sink::fire(self.token);
        }
    }
}

// === impl Timers ===

impl Timers {
    #[inline]
    pub(super) fn push(&mut self, deadline: Instant, token: u64, state: Arc<AtomicU8>) {
        if self.heap.len() >= FEW && self.cancelled > self.heap.len() / 2 {
            let is_pending = |timer: &Timer| timer.state.load(Ordering::Relaxed) == PENDING;
            self.heap.retain(|Reverse(entry)| is_pending(&entry.item));
            self.cancelled = 0;
        }
        self.heap.push(Reverse(Entry { deadline, item: Timer { token, state } }));
    }

    /// The first deadline.
    pub(super) fn first(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(first)| first.deadline)
    }

    /// Takes out the first if it is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        self.first().filter(|first| *first <= now)?;
        self.heap.pop().map(|Reverse(first)| first.item)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}

// === impl Worker ===

impl Worker {
    pub(super) fn new() -> rustix::io::Result<Worker> {
        Ok(Worker { timers: Timers::default(), alarm: Alarm::new()? })
    }

    /// Fires all that is due.
    pub(super) fn fire_due(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            timer.fire();
        }
    }

    /// Fires what becomes due until then; without a time, for ever.
    pub(super) fn sleep_until(&mut self, end: Option<Instant>) {
        loop {
            let now = Instant::now();
            self.fire_due(now);
            if end.is_some_and(|end| now >= end) {
                return;
            }
            self.alarm.set(self.timers.first().into_iter().chain(end).min());
            self.alarm.wait();
        }
    }
}

/// Decides what becomes of a pending timer, if nothing has become of it yet.
pub(super) fn settle(state: &AtomicU8, fate: u8) -> bool {
    state.compare_exchange(PENDING, fate, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}
