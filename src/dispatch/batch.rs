//! A batch of payloads on its way from the reaper to the handler.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use crate::time::{Clock, Scale, Tick};

/// Payloads that are due, in order of their deadlines' ticks, each to be taken once. (One that was
/// scheduled for a time in the past comes anywhere from its deadline's place to that of the time
/// at which it was scheduled.)
///
/// A batch is an iterator over payloads. What a handler leaves in it when it returns is dropped;
/// what is left when it *panics* is handed over again, without the payload it panicked on.
pub struct Batch<'a, T> {
    queue: &'a mut Queue<T>,
    clock: &'a Clock,
    scale: Scale,
}

/// A payload that is due, and when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due<T> {
    /// What was scheduled.
    pub payload: T,
    /// Its deadline, rounded up to the tick.
    pub deadline: Instant,
}

/// Payloads with their deadlines, as the reaper collects them.
pub(crate) type Queue<T> = VecDeque<(Tick, T)>;

// === impl Batch ===

impl<'a, T> Batch<'a, T> {
    pub(crate) fn new(queue: &'a mut Queue<T>, clock: &'a Clock, scale: Scale) -> Batch<'a, T> {
        Batch { queue, clock, scale }
    }

    /// The next payload together with its deadline.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Batch, Engine, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).build_typed(
    ///     |mut batch: Batch<'_, &str>| {
    ///         while let Some(due) = batch.next_due() {
    ///             println!("{} was due at {:?}", due.payload, due.deadline);
    ///         }
    ///     },
    /// )?;
    /// engine.schedule_detached(Duration::from_secs(1), "tea")?;
    /// assert_eq!(engine.advance(Duration::from_secs(1))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_due(&mut self) -> Option<Due<T>> {
        let (tick, payload) = self.queue.pop_front()?;
        let ns = self.scale.start_ns(tick).unwrap_or(u64::MAX);
        let deadline = self.clock.instant_at(ns).unwrap_or_else(Instant::now);
        Some(Due { payload, deadline })
    }

    /// How many payloads are left.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether every payload was taken.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl<T> Iterator for Batch<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.queue.pop_front().map(|(_, payload)| payload)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.queue.len(), Some(self.queue.len()))
    }
}

impl<T> ExactSizeIterator for Batch<'_, T> {}

impl<T> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.queue.len()).finish_non_exhaustive()
    }
}
