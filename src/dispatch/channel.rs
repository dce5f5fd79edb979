//! Sends due payloads into a channel.
//!
//! *Owner*: the engine. Monitors share the counters.

use std::mem;

use crossbeam_channel::TrySendError;

use crate::sync::{Arc, Counter, add_one};

use super::monitor::counts;
use super::senders::AnySender;
use super::{Batch, ChannelSender, Due, Handler, Monitor};

/// A handler that sends due payloads into a channel, in order, for
/// [`Engine::with_handler`](crate::Engine::with_handler) and
/// [`Builder::build_with_handler`](crate::Builder::build_with_handler).
///
/// The channel is one of crossbeam's, one of the standard library's `mpsc`, or (feature `tokio`)
/// one of tokio's `mpsc`: see [`ChannelSender`]. Channels of other crates need one line of code:
/// see [`Handler`] for an example.
///
/// It sends payloads; with [`with_deadlines`](Channel::with_deadlines) it sends [`Due`]s.
///
/// The engine drops its handler when it has stopped. If the handler has the last sender, the
/// receivers get the payloads that were sent, and then the channel is disconnected.
///
/// ```
/// use std::time::Duration;
/// use tickless::dispatch::Channel;
/// use tickless::Engine;
///
/// let (sender, receiver) = crossbeam_channel::unbounded();
/// let engine = Engine::with_handler(Channel::blocking(sender))?;
/// engine.schedule_detached(Duration::from_millis(2), 7)?;
/// assert_eq!(receiver.recv()?, 7);
/// engine.stop()?;
/// assert!(receiver.recv().is_err(), "nothing comes any more");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Channel<T> {
    sender: AnySender<T>,
    waits: bool,
    counts: Arc<Counts>,
}

/// A [`Channel`] that sends payloads with their deadlines: see [`Channel::with_deadlines`].
///
/// ```
/// use std::time::Duration;
/// use tickless::dispatch::{Channel, DueChannel};
/// use tickless::{Due, Engine};
///
/// let (sender, receiver) = crossbeam_channel::unbounded::<Due<&str>>();
/// let handler: DueChannel<&str> = Channel::blocking(sender).with_deadlines();
/// let engine = Engine::with_handler(handler)?;
/// let tea = engine.schedule(Duration::from_millis(2), "tea")?;
/// let due = receiver.recv()?;
/// assert_eq!((due.payload, Some(due.deadline)), ("tea", tea.deadline()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DueChannel<T>(Channel<Due<T>>);

/// Counts a payload there if the attempt to send it panics.
struct IfItPanics<'a>(&'a Counter);

/// Counts of the payloads that a [`Channel`] sent or dropped.
///
/// Each number is exact, but they are read one after another while reapers continue to count.
///
/// ```
/// use std::time::Duration;
/// use tickless::dispatch::Channel;
/// use tickless::{Builder, ManualClock};
///
/// let (sender, receiver) = crossbeam_channel::bounded(1);
/// let channel = Channel::dropping(sender);
/// let monitor = channel.monitor();
/// let engine = Builder::new().manual_clock(&ManualClock::new()).build_with_handler(channel)?;
/// for number in 0..3 {
///     engine.schedule_detached(Duration::from_secs(1), number)?;
/// }
/// engine.advance(Duration::from_secs(1))?;
/// assert_eq!((monitor.stats().sent, monitor.stats().dropped), (1, 2));
/// # drop(receiver);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelStats {
    /// Payloads sent.
    pub sent: u64,
    /// Payloads dropped because the channel was full, and could not or was not to be waited for.
    pub dropped: u64,
    /// Payloads dropped because all receivers were gone.
    pub disconnected: u64,
}

// === impl Channel ===

impl<T> Channel<T> {
    /// Creates a handler that waits for room when the channel is full. The reaper waits, and its
    /// shard with it: meanwhile no other timer of that shard fires, and stopping the engine waits
    /// as well. (An unbounded channel is never full.)
    ///
    /// A thread that receives must therefore not stop the engine, or run its turns, if no other
    /// thread makes room. It drops the receivers first: payloads that are due from then on are
    /// dropped and counted.
    ///
    /// A thread that runs asynchronous code of tokio must not wait for room in a channel of
    /// tokio's: if it runs the engine's turns ([`Engine::advance`](crate::Engine::advance) in a
    /// test, for example) and the channel is full, tokio panics. The payload is dropped and counted
    /// ([`ChannelStats::dropped`]), the panic is counted by the engine
    /// ([`Stats::panicked`](crate::Stats::panicked)), and the next payload follows. The engine's
    /// own threads may wait.
    pub fn blocking(sender: impl ChannelSender<Payload = T>) -> Channel<T> {
        Channel { sender: sender.into_any(), waits: true, counts: Arc::default() }
    }

    /// Creates a handler that drops due payloads when the channel is full, on the reaper, and
    /// counts them ([`ChannelStats::dropped`]). No reaper ever waits.
    pub fn dropping(sender: impl ChannelSender<Payload = T>) -> Channel<T> {
        Channel { sender: sender.into_any(), waits: false, counts: Arc::default() }
    }

    /// Sends what `pull` takes out of a batch. One that is not sent is counted before it is
    /// dropped: a drop may panic.
    ///
    /// The shard is kept meanwhile: two reapers that send at a time would not keep to the order. Of
    /// the user's code, only wakers run then (those of receivers of tokio's). The drop of a payload
    /// is the user's as well, and may be taken over as any task.
    fn send_all<'a, P>(&self, mut batch: Batch<'a, P>, pull: fn(&mut Batch<'a, P>) -> Option<T>) {
        batch.waits(true);
        while let Some(payload) = pull(&mut batch) {
            let Counts { sent, dropped, disconnected } = &*self.counts;
            // Only the waker of a receiver may panic, after the payload was sent.
            let guard = IfItPanics(sent);
            let mut result = self.sender.try_send(payload);
            mem::forget(guard);
            if self.waits && matches!(result, Err(TrySendError::Full(_))) {
                // The wait itself may panic, before the payload is sent.
                let guard = IfItPanics(dropped);
                result = result.or_else(|full| self.sender.wait_and_send(full.into_inner()));
                mem::forget(guard);
            }
            add_one(match &result {
                Ok(()) => sent,
                Err(TrySendError::Full(_)) => dropped,
                Err(TrySendError::Disconnected(_)) => disconnected,
            });
            if result.is_err() {
                batch.waits(false);
                drop(result);
                batch.waits(true);
            }
        }
        batch.waits(false);
    }
}

impl<T: Send + 'static> Channel<T> {
    /// Returns a view of the counts, which does not keep the channel open.
    pub fn monitor(&self) -> Monitor<ChannelStats> {
        self.counts.monitor()
    }
}

impl<T> Channel<Due<T>> {
    /// Turns this into a handler for payloads of type `T` that sends them with their deadlines.
    pub fn with_deadlines(self) -> DueChannel<T> {
        DueChannel(self)
    }
}

impl<T: Send> Handler<T> for Channel<T> {
    fn fire(&self, batch: Batch<'_, T>) {
        self.send_all(batch, Batch::next);
    }
}

impl<T: Send> Handler<T> for DueChannel<T> {
    fn fire(&self, batch: Batch<'_, T>) {
        self.0.send_all(batch, Batch::next_due);
    }
}

debug! { impl[T] Channel[T] { waits, stats = |this| this.counts.read() } }

// === impl IfItPanics, Counts ===

impl Drop for IfItPanics<'_> {
    fn drop(&mut self) {
        add_one(self.0);
    }
}

counts! { ChannelStats { sent, dropped, disconnected } }
