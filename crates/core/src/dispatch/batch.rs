//! A batch of payloads on its way from the reaper to the handler.

use std::time::Instant;

use crate::sync::{AtomicBool, Counter, Ordering, add_alone};
use crate::time::{Clock, Scale, Tick};

use super::{HandOver, Task};

/// Due payloads, in order of their deadlines' ticks. Each can be taken once. (A payload that was
/// scheduled for a time in the past comes anywhere between the place of its deadline and the place
/// of the time at which it was scheduled.)
///
/// From batch to batch, a shard keeps the order of ticks too, unless there is a *crowd*: more than
/// 4,096 timers that are due at one tick, or more than 16,384 in a coarse bucket that is due and
/// still has to be filed more exactly. If something else becomes due while a crowd fires, it goes
/// before the rest of the crowd, which fires in no particular order then. (A timer that was moved
/// to later before the crowd's tick is one of the crowd until its place there comes. Timers that
/// were cancelled count, as long as they have their place in the bucket.) A coarse bucket is due
/// when the process was kept from running for longer than such a bucket is wide: a pause of seconds
/// makes crowds of timers that are few at each tick.
/// [`Engine::turn`] and [`Engine::advance`] go through
/// a crowd to its end, in order.
///
/// A batch is an iterator over payloads. When a handler returns, the payloads that are left in the
/// batch are dropped. When it *panics*, they are handed over again, without the payload it panicked
/// on.
///
/// When the engine is stopped, the batch ends at once: no more payloads can be taken, and the rest
/// is returned to the thread that stops the engine. It also ends if the handler keeps a payload for
/// longer than [`takeover`]: another thread then hands over the rest. So
/// [`len`](Batch::len) is an upper bound.
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
///
/// [`Engine::turn`]: https://docs.rs/tickless/latest/tickless/struct.Engine.html#method.turn
/// [`Engine::advance`]: https://docs.rs/tickless/latest/tickless/struct.Engine.html#method.advance
/// [`takeover`]: https://docs.rs/tickless/latest/tickless/struct.Builder.html#method.takeover
pub struct Batch<'a, T> {
    hand_over: &'a HandOver<T>,
    clock: &'a Clock,
    scale: Scale,
    /// Whether the engine is stopping. The handler does not get the rest then.
    stopping: &'a AtomicBool,
    /// This batch has seen `stopping` set.
    is_cut: bool,
    /// Counts the payloads taken. Its only writer is the thread that has the batch.
    fired: &'a Counter,
}

/// A due payload with its deadline.
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
    /// The payload that was scheduled.
    pub payload: T,
    /// Its deadline, rounded up to the tick.
    pub deadline: Instant,
}

// === impl Batch ===

impl<'a, T> Batch<'a, T> {
    pub(crate) fn new(
        hand_over: &'a HandOver<T>,
        clock: &'a Clock,
        scale: Scale,
        stopping: &'a AtomicBool,
        fired: &'a Counter,
    ) -> Batch<'a, T> {
        Batch { hand_over, clock, scale, stopping, is_cut: false, fired }
    }

    /// Takes the next payload together with its deadline.
    pub fn next_due(&mut self) -> Option<Due<T>> {
        let next = self.pull()?;
        Some(self.due(next))
    }

    /// Returns the number of payloads left. Fewer can be taken if the engine is stopped or the
    /// shard is taken over meanwhile.
    pub fn len(&self) -> usize {
        if self.is_cut { 0 } else { self.hand_over.left() }
    }

    /// Returns `true` if no payload is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the next payload and its deadline. No code of the user runs, so the caller may hold a
    /// lock.
    #[doc(hidden)]
    #[inline]
    pub fn pull(&mut self) -> Option<(Tick, T)> {
        // SAFETY: it is this batch's now, and moved out once.
        self.claim_next().map(|place| unsafe { place.read() })
    }

    /// The handler waits for others, as it was told to, until this is called with `false`: the
    /// shard is not taken over meanwhile.
    #[doc(hidden)]
    pub fn waits(&self, is_waiting: bool) {
        self.hand_over.set_patient((!is_waiting).then(|| self.clock.now_ns()));
    }

    /// Takes the next payload where it lies. It stays there until the handler returns.
    #[inline]
    fn claim_next(&mut self) -> Option<*const (Tick, T)> {
        // ORDER(STOP): Acquire - pairs with the swap that sets the flag: everything the stopping
        // thread did before it happens before everything the handler does next.
        if self.stopping.load(Ordering::Acquire) {
            self.is_cut = true;
            return None;
        }
        let next = self.hand_over.claim_place()?;
        add_alone(self.fired, 1);
        Some(next)
    }

    /// Calls `run` with each of the engine's own payloads, which come first.
    pub(crate) fn run_own(&mut self, run: fn(T)) {
        while self.hand_over.is_at_own() {
            let Some((_, payload)) = self.pull() else { return };
            run(payload);
        }
    }

    /// Converts a queued payload to the form that handlers see.
    #[doc(hidden)]
    pub fn due(&self, (tick, payload): (Tick, T)) -> Due<T> {
        let ns = self.scale.start_ns(tick).unwrap_or(u64::MAX);
        let deadline = self.clock.instant_at(ns).unwrap_or_else(Instant::now);
        Due { payload, deadline }
    }
}

impl Batch<'_, Task> {
    /// Runs all tasks, one after the other.
    #[inline]
    pub(super) fn run_all(mut self) {
        while let Some(place) = self.claim_next() {
            // SAFETY: the task is this batch's, and is run once.
            unsafe { Task::run_at(&raw const (*place).1) };
        }
    }
}

impl<T> Iterator for Batch<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.pull().map(|(_, payload)| payload)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl<T> ExactSizeIterator for Batch<'_, T> {}

debug! { impl[T] Batch['_, T] { len = |this| this.len() } }
