//! A channel that what is due is sent into.
//!
//! *Owner*: the engine; what is counted is shared with monitors.

use std::fmt;

use crossbeam_channel::{Sender, TrySendError};

use crate::sync::{Arc, Counter, Ordering};

use super::due_items::DueItems;
use super::{Batch, Due, Handler, Monitor};

/// Sends what is due into a channel, in order: a handler for
/// [`Builder::build_typed`](crate::Builder::build_typed).
///
/// It sends payloads; [`with_deadlines`](Channel::with_deadlines) makes it send [`Due`]s.
///
/// The engine drops its handler when it has stopped: if that has the last sender, receivers find
/// what was sent and then the end.
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
///
/// Channels of other crates are a line: see [`Handler`] for that of the standard library.
pub struct Channel<T> {
    sender: Sender<T>,
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

#[derive(Default)]
struct Counts {
    sent: Counter,
    dropped: Counter,
    disconnected: Counter,
}

/// What was sent into a channel, and what was not.
///
/// Each number is right by itself; they are read one after another while reapers go on counting.
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
    /// Payloads dropped because the channel was full.
    pub dropped: u64,
    /// Payloads dropped because nobody receives any more.
    pub disconnected: u64,
}

// === impl Channel ===

impl<T> Channel<T> {
    /// When the channel is full the reaper waits for room, and its shard with it: no other timer of
    /// that shard fires meanwhile, and stopping the engine waits as well. (An unbounded channel is
    /// never full.)
    ///
    /// So whoever receives must not stop the engine, or run its turns, while it is the only one to
    /// make room. It drops the receivers first: what is due then is dropped and counted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::dispatch::Channel;
    ///
    /// let (sender, receiver) = crossbeam_channel::bounded(100);
    /// let engine = Engine::with_handler(Channel::blocking(sender))?;
    /// engine.schedule_detached(Duration::from_millis(2), "tea")?;
    /// assert_eq!(receiver.recv()?, "tea");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blocking(sender: Sender<T>) -> Channel<T> {
        Channel { sender, waits: true, counts: Arc::default() }
    }

    /// When the channel is full, what is due is dropped on the reaper, and counted
    /// ([`ChannelStats::dropped`]). No reaper ever waits.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::dispatch::Channel;
    /// use tickless::{Builder, ManualClock, Engine};
    ///
    /// let (sender, receiver) = crossbeam_channel::bounded(1);
    /// let channel = Channel::dropping(sender);
    /// let monitor = channel.monitor();
    /// let clock = ManualClock::new();
    /// let engine = Builder::new().shards(1).manual_clock(&clock).build_with_handler(channel)?;
    /// engine.schedule_detached(Duration::from_secs(1), 1)?;
    /// engine.schedule_detached(Duration::from_secs(2), 2)?;
    /// engine.advance(Duration::from_secs(3))?;
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert_eq!((monitor.stats().sent, monitor.stats().dropped), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dropping(sender: Sender<T>) -> Channel<T> {
        Channel { sender, waits: false, counts: Arc::default() }
    }

    fn send_all(&self, payloads: impl Iterator<Item = T>) {
        for payload in payloads {
            self.send(payload);
        }
    }

    /// Sends one. It is counted before it is dropped, if it is: a drop may panic.
    fn send(&self, payload: T) {
        let sent = if self.waits {
            self.sender.send(payload).map_err(|error| TrySendError::Disconnected(error.0))
        } else {
            self.sender.try_send(payload)
        };
        let count = match &sent {
            Ok(()) => &self.counts.sent,
            Err(TrySendError::Full(_)) => &self.counts.dropped,
            Err(TrySendError::Disconnected(_)) => &self.counts.disconnected,
        };
        // ORDER: Relaxed - a number for whoever asks.
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl<T: Send + 'static> Channel<T> {
    /// A view of what was sent and what was not, which does not keep the channel open.
    ///
    /// ```
    /// use tickless::dispatch::{Channel, ChannelStats};
    ///
    /// let (sender, receiver) = crossbeam_channel::unbounded::<u64>();
    /// let channel = Channel::blocking(sender);
    /// let monitor = channel.monitor();
    /// drop(channel);
    /// assert_eq!(monitor.stats(), ChannelStats::default());
    /// assert!(receiver.recv().is_err(), "the channel is closed");
    /// ```
    pub fn monitor(&self) -> Monitor<ChannelStats> {
        let counts = self.counts.clone();
        Monitor::new(move || counts.read())
    }
}

impl<T> Channel<Due<T>> {
    /// The same as a handler for payloads of type `T`, which sends them with their deadlines.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::dispatch::Channel;
    ///
    /// let (sender, receiver) = crossbeam_channel::unbounded();
    /// let engine = Engine::with_handler(Channel::blocking(sender).with_deadlines())?;
    /// engine.schedule_detached(Duration::from_millis(2), 7)?;
    /// let due = receiver.recv()?;
    /// println!("connection {} is {:?} late", due.payload, due.deadline.elapsed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_deadlines(self) -> DueChannel<T> {
        DueChannel(self)
    }
}

impl<T: Send> Handler<T> for Channel<T> {
    fn fire(&self, batch: Batch<'_, T>) {
        self.send_all(batch);
    }
}

impl<T: Send> Handler<T> for DueChannel<T> {
    fn fire(&self, batch: Batch<'_, T>) {
        self.0.send_all(DueItems(batch));
    }
}

impl<T> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("waits", &self.waits)
            .field("stats", &self.counts.read())
            .finish_non_exhaustive()
    }
}

// === impl Counts ===

impl Counts {
    fn read(&self) -> ChannelStats {
        // ORDER: Relaxed - as in `send`.
        let read = |count: &Counter| count.load(Ordering::Relaxed);
        ChannelStats {
            sent: read(&self.sent),
            dropped: read(&self.dropped),
            disconnected: read(&self.disconnected),
        }
    }
}
