//! A batch of payloads on its way from the reaper to the handler.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use crate::sync::{AtomicBool, Counter, Ordering, add_alone};
use crate::time::{Clock, Scale, Tick};

use super::{Sample, Stopwatch};

/// Payloads that are due, in order of their deadlines' ticks, each to be taken once. (One that was
/// scheduled for a time in the past comes anywhere from its deadline's place to that of the time
/// at which it was scheduled.)
///
/// A batch is an iterator over payloads. What a handler leaves in it when it returns is dropped;
/// what is left when it *panics* is handed over again, without the payload it panicked on.
///
/// When the engine is stopped, the batch ends at once: nothing more can be taken out of it, and the
/// rest goes back to the thread that stops the engine. So [`len`](Batch::len) says how many
/// payloads there are *at most*.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::{Batch, Engine, ManualClock};
///
/// let (sender, idle) = mpsc::channel();
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build_with_handler(
///     // One message for all that are due together.
///     move |batch: Batch<'_, u64>| drop(sender.send(batch.collect::<Vec<_>>())),
/// )?;
/// for connection in 0..3 {
///     engine.schedule_detached(Duration::from_secs(30), connection)?;
/// }
/// engine.advance(Duration::from_secs(30))?;
/// assert_eq!(idle.recv()?.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batch<'a, T> {
    queue: &'a mut Queue<T>,
    clock: &'a Clock,
    scale: Scale,
    /// Where somebody wants to know how long each payload takes.
    stopwatch: Option<&'a mut Stopwatch>,
    /// Whether the engine is stopping: then what is left is not for the handler.
    stopping: &'a AtomicBool,
    /// It was seen to be.
    is_cut: bool,
    /// Counts what is taken. Its one writer is the thread that has the batch.
    fired: &'a Counter,
}

/// A payload that is due, and when it was.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::{Batch, Engine, ManualClock};
///
/// let (sender, fired) = mpsc::channel();
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build_with_handler(
///     move |mut batch: Batch<'_, &'static str>| {
///         while let Some(due) = batch.next_due() {
///             let _ = sender.send(due);
///         }
///     },
/// )?;
/// let tea = engine.schedule(Duration::from_secs(300), "tea")?;
/// engine.advance(Duration::from_secs(300))?;
/// let due = fired.recv()?;
/// assert_eq!((due.payload, Some(due.deadline)), ("tea", tea.deadline()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due<T> {
    /// What was scheduled.
    pub payload: T,
    /// Its deadline, rounded up to the tick.
    pub deadline: Instant,
}

/// Payloads with their deadlines, as the reaper collects them.
#[doc(hidden)]
pub type Queue<T> = VecDeque<(Tick, T)>;

// === impl Batch ===

impl<'a, T> Batch<'a, T> {
    pub(crate) fn new(
        queue: &'a mut Queue<T>,
        clock: &'a Clock,
        scale: Scale,
        stopwatch: Option<&'a mut Stopwatch>,
        stopping: &'a AtomicBool,
        fired: &'a Counter,
    ) -> Batch<'a, T> {
        Batch { queue, clock, scale, stopwatch, stopping, is_cut: false, fired }
    }

    /// The next payload together with its deadline.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Batch, Engine, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).build_with_handler(
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
        let next = self.pop()?;
        Some(self.due(next))
    }

    /// How many payloads are left; fewer can be taken if the engine is stopped meanwhile.
    ///
    /// ```
    /// # use std::sync::mpsc;
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Engine, ManualClock};
    /// let (sender, messages) = mpsc::channel();
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build_with_handler(
    ///     move |batch: Batch<'_, u64>| {
    ///         let mut message = Vec::with_capacity(8 * batch.len());
    ///         batch.for_each(|connection| message.extend(connection.to_be_bytes()));
    ///         let _ = sender.send(message);
    ///     },
    /// )?;
    /// engine.schedule_detached(Duration::from_secs(1), 7)?;
    /// engine.advance(Duration::from_secs(1))?;
    /// assert_eq!(messages.recv()?, 7_u64.to_be_bytes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        if self.is_cut { 0 } else { self.queue.len() }
    }

    /// Whether every payload was taken.
    ///
    /// ```
    /// # use std::sync::mpsc;
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Engine, ManualClock};
    /// let (sender, packets) = mpsc::channel();
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).shards(1).build_typed(
    ///     move |mut batch: Batch<'_, u64>| {
    ///         while !batch.is_empty() {
    ///             let _ = sender.send(batch.by_ref().take(3).count());
    ///         }
    ///     },
    /// )?;
    /// for connection in 0..4 {
    ///     engine.schedule_detached(Duration::from_secs(1), connection)?;
    /// }
    /// engine.advance(Duration::from_secs(1))?;
    /// assert_eq!(packets.try_iter().collect::<Vec<_>>(), [3, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next payload and its deadline, for one who holds a lock: nobody is told of a slow task
    /// until [`tell`](Batch::tell).
    pub(super) fn pull_untold(&mut self) -> Option<(Tick, T)> {
        if self.stopwatch.is_some() {
            self.note();
        }
        self.take_next()
    }

    /// Tells of the slow tasks that taking payloads has shown.
    pub(super) fn tell(&mut self) {
        if let Some(stopwatch) = &mut self.stopwatch {
            stopwatch.tell(self.clock);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<(Tick, T)> {
        if self.stopwatch.is_some() { self.pop_watched() } else { self.take_next() }
    }

    #[cold]
    fn pop_watched(&mut self) -> Option<(Tick, T)> {
        let next = self.pull_untold();
        self.tell();
        next
    }

    #[inline]
    fn take_next(&mut self) -> Option<(Tick, T)> {
        // ORDER(STOP): Acquire - pairs with the swap that raises the flag: what the stopper did
        // before comes before all that the handler does next.
        if self.stopping.load(Ordering::Acquire) {
            self.is_cut = true;
            return None;
        }
        let next = self.queue.pop_front()?;
        add_alone(self.fired, 1);
        Some(next)
    }

    #[cold]
    fn note(&mut self) {
        // Where none is left, the time of the last goes on until the handler returns.
        let next = self.queue.front().map(|&(deadline, _)| deadline);
        if let Some(stopwatch) = self.stopwatch.as_mut().filter(|_| next.is_some()) {
            let sample = Sample { next, waiting: self.queue.len(), panicked: false };
            stopwatch.note(self.clock, self.scale, sample);
        }
    }

    /// A payload with its deadline, as handlers see it.
    pub(super) fn due(&self, (tick, payload): (Tick, T)) -> Due<T> {
        Due { payload, deadline: instant_of(self.clock, self.scale, tick) }
    }
}

/// When a tick begins, as callers tell time.
pub(super) fn instant_of(clock: &Clock, scale: Scale, tick: Tick) -> Instant {
    let ns = scale.start_ns(tick).unwrap_or(u64::MAX);
    clock.instant_at(ns).unwrap_or_else(Instant::now)
}

impl<T> Iterator for Batch<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.pop().map(|(_, payload)| payload)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl<T> ExactSizeIterator for Batch<'_, T> {}

impl<T> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.queue.len()).finish_non_exhaustive()
    }
}
