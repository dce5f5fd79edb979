//! How a service is configured and opened.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tickless::periodic::Backoff;
use tickless::wall::WallTimers;
use tickless::{Engine, ManualClock};

use crate::error::{OpenError, StoreError};
use crate::payload::Payload;
use crate::position::ms_passed;
#[cfg(any(feature = "postgres", feature = "nats"))]
use crate::record::Key;
use crate::record::Record;
use crate::store::Store;

use super::by_hand::ByHand;
#[cfg(any(feature = "postgres", feature = "nats"))]
use super::config::LINGERS;
use super::config::{Config, Misfire, Recurring, Share};
use super::core::Core;
use super::durable::Durable;
use super::firing::{Firing, erase};
use super::numbers::Numbers;
use super::owner::Owner;
use super::retry::{Limits, Retry};
use super::worker::Run;
use super::{misfire, recurring};

/// Configures and opens a [`Durable`].
///
/// ```
/// use std::time::Duration;
/// use tickless_durable::{Backoff, Durable, Firing, Misfire, RedbStore};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timers.redb");
/// let timers = Durable::builder()
///     .workers(8)
///     .attempts(5)
///     .backoff(Backoff::new(Duration::from_secs(2)).max(Duration::from_secs(300)))
///     .misfire(Misfire::Spread(Duration::from_secs(60)))
///     .open(RedbStore::open(path)?, |firing: &Firing<String>| {
///         println!("{} is due", firing.payload());
///         Ok::<(), std::io::Error>(())
///     })?;
/// # timers.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until it opens"]
pub struct Builder {
    config: Config,
}

// === impl Durable, Builder ===

impl Durable {
    /// Returns a [`Builder`], for a service with payloads of any type. It is asked for without one,
    /// as `Durable::builder()`: the handler decides which it is.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// A builder with the default settings.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// How many timers may be in memory, at least 1. Default: 65,536. In a cluster, an instance's
    /// shards share them evenly.
    ///
    /// The rest stays in the store, and is read when half of these have fired. A payload is in
    /// memory with its timer. A timer is in memory until its end is written, so at most this many
    /// fire within four [lingers](Builder::linger).
    pub fn window(mut self, timers: usize) -> Builder {
        self.config.window = timers.max(1);
        self
    }

    /// How far ahead timers are taken into memory. Default: an hour.
    pub fn span(mut self, span: Duration) -> Builder {
        self.config.span = span;
        self
    }

    /// How long a new timer waits at least before it is written, if nobody waits for it. Default:
    /// 20 ms; zero: nothing waits.
    ///
    /// Any change that nobody waits for is written within four lingers, together with what has come
    /// by then. A change for whose ticket or reply somebody [waits](crate::Ticket::wait) is written
    /// at once, and so is a timer that is due within four lingers.
    ///
    /// A timer that is cancelled meanwhile is never written. A crash loses what was not written.
    pub fn linger(mut self, linger: Duration) -> Builder {
        self.config.linger = linger.min(Duration::from_secs(86_400));
        self
    }

    /// What is paused in what instances share.
    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(crate) fn pauses(mut self, pauses: Vec<Key>) -> Builder {
        self.config.pauses = Some(pauses);
        self
    }

    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(crate) fn timers_in_memory(&self) -> usize {
        self.config.window
    }

    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(crate) fn longest_wait(&self) -> Duration {
        LINGERS * self.config.linger
    }

    /// How many new timers are written together, at least 1. Default: 16,384. The rest comes next.
    /// A larger batch shares its sync among more timers, and keeps those waiting that have fired.
    pub fn batch(mut self, timers: usize) -> Builder {
        self.config.batch = timers.max(1);
        self
    }

    /// How many new timers may wait to be written, at least 1. Default: a million. With more,
    /// scheduling is refused ([`ScheduleReason::Busy`](crate::ScheduleReason::Busy)).
    pub fn max_unwritten(mut self, timers: usize) -> Builder {
        self.config.max_unwritten = timers.max(1);
        self
    }

    /// How many bytes the keys and payloads of new timers may have that wait to be written.
    /// Default: 256 MiB. With more, scheduling is refused as above. The last one may go beyond.
    pub fn max_unwritten_bytes(mut self, bytes: usize) -> Builder {
        self.config.max_unwritten_bytes = bytes.max(1);
        self
    }

    /// How many threads call the handler, at least 1. Default: 4.
    pub fn workers(mut self, workers: usize) -> Builder {
        self.config.workers = workers.max(1);
        self
    }

    /// How often a timer is tried before it becomes a dead letter, at least once. Default: 10.
    pub fn attempts(mut self, attempts: u32) -> Builder {
        self.config.attempts = attempts.max(1);
        self
    }

    /// Which limits a timer has of its own: by its key or its payload, say. This is asked when an
    /// attempt has failed. Default: none has any.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_durable::{Builder, Limits, Record};
    ///
    /// let service = Builder::new().attempts(10).limits(|timer: &Record| {
    ///     match timer.key.as_deref() {
    ///         Some(key) if key.starts_with(b"mail/") => Limits::new().attempts(3),
    ///         _ => Limits::new().within(Duration::from_secs(86_400)),
    ///     }
    /// });
    /// ```
    pub fn limits(mut self, limits: impl Fn(&Record) -> Limits + Send + Sync + 'static) -> Builder {
        self.config.limits = Some(Arc::new(limits));
        self
    }

    /// How many attempts in a row may be cut off by the end of their process before a timer
    /// becomes a dead letter, at least 3. Default: 5; `u32::MAX`: any number.
    ///
    /// A timer whose handler ends the process, and that comes again each time, would otherwise do
    /// so for ever. A timer that becomes due while the service runs is not written to the store
    /// before its handler runs, so the first time is not counted. What was due before the service
    /// was opened is written. A few of such timers share a write. Those that were cut off once run
    /// beside at most seven like them, and those that were cut off twice beside none like them, in
    /// all shards of an instance, so that one timer that ends the process makes no dead letter of
    /// another. Several do: for n of them, choose at least 3 n + 2.
    /// While the handler of one that was cut off twice hangs, no other that was cut off twice
    /// fires, in all shards of the instance; all other timers do.
    ///
    /// Any end counts, as nobody can tell which handler has caused it: a kill, a power failure, and
    /// also the end of a process in which other timers' handlers were running. A stop does not
    /// count, nor a [`stop_within`](crate::Durable::stop_within) that leaves the handler behind. So
    /// where handlers run for a good part of the life of a process, choose a larger number.
    ///
    /// With `u32::MAX`, nothing is written, and what is due at the opening begins sooner.
    pub fn crashes(mut self, most: u32) -> Builder {
        self.config.crashes = most.max(3);
        self
    }

    /// How long dead letters are kept, from when their last attempts were due. Default: until they
    /// are revived or forgotten.
    ///
    /// The service looks for older ones when it is opened, when another timer becomes one, and once
    /// a minute while it writes. A service that has nothing to do throws none away.
    pub fn keep_letters(mut self, time: Duration) -> Builder {
        self.config.keep_letters = Some(time);
        self
    }

    /// How long a handler may run. Default: as long as it likes.
    ///
    /// One that runs for longer is counted ([`Stats::stuck`](crate::Stats::stuck)), and neither a
    /// stop nor, in a cluster, a shard that is to go to another instance waits for it any longer:
    /// its timer stays in the store and comes again, perhaps beside it. Nothing else is done to it,
    /// as a thread cannot be ended from outside.
    pub fn handler_limit(mut self, limit: Duration) -> Builder {
        self.config.handler_limit = Some(limit);
        self
    }

    /// The pauses between attempts. Default: from a second on, twice as long each time, up to ten
    /// minutes, half of it random.
    pub fn backoff(mut self, backoff: Backoff) -> Builder {
        self.config.backoff = backoff;
        self
    }

    /// What becomes of timers that were due while no service ran. Default: they fire at once.
    pub fn misfire(mut self, misfire: Misfire) -> Builder {
        self.config.misfire = misfire;
        self
    }

    /// How long before the opening a timer has to have been due in order to count as missed.
    /// Default: 1 s.
    pub fn misfire_after(mut self, after: Duration) -> Builder {
        self.config.misfire_after = after;
        self
    }

    /// A timer that comes again and again under this name, which is its key, each time with this
    /// payload. `next` gets a time and returns the first one after it at which the timer comes, or
    /// `None` if there is no more: [`every`](crate::every) so often, or as a crate for cron
    /// expressions says. The same time has to have the same answer in each process.
    ///
    /// The store has the next occurrence, each with a number of its own. It is handled as any
    /// timer: once in the whole cluster, and again after an error or the end of a process. When it
    /// is over, as a dead letter too, the next one is in the store in the same moment: the first
    /// one after the present, unless another timer has the name as its key. So occurrences do not
    /// overlap. Of those that pass while a handler runs, or while no service runs, the first one
    /// comes late and the others not at all; with [`Misfire::Skip`], it does not come either. If
    /// the record of an occurrence cannot be read, the next one comes after the next opening.
    ///
    /// What `next` and `payload` are is not in the store. Whoever opens it sees that the occurrence
    /// there is one of these times with this payload. If not, the next one replaces it, unless
    /// there is no more. A name that nobody gives any more comes once more, at the time that is in
    /// the store. A cancel lasts until the next opening.
    ///
    /// If `next` panics, or returns a time that is not after the one that it got, there is no next
    /// one until the next opening.
    ///
    /// ```
    /// use std::str::FromStr;
    /// use std::time::{Duration, SystemTime};
    /// use chrono::{DateTime, Utc};
    /// use tickless_durable::{Durable, Firing, RedbStore, every};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("timers.redb");
    /// let mornings = cron::Schedule::from_str("0 0 9 * * Mon-Fri")?;
    /// let mornings = move |after| {
    ///     mornings.after(&DateTime::<Utc>::from(after)).next().map(SystemTime::from)
    /// };
    /// let timers = Durable::builder()
    ///     .recurring("report", "to: all", mornings)
    ///     .recurring("tidy", "", every(Duration::from_secs(600)))
    ///     .open(RedbStore::open(path)?, |firing: &Firing<String>| {
    ///         println!("{:?}: {}", firing.key(), firing.payload());
    ///         Ok::<(), std::io::Error>(())
    ///     })?;
    /// assert_eq!(timers.contents().wait()?.timers, 2);
    /// # timers.stop()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recurring(
        mut self,
        name: impl AsRef<[u8]>,
        payload: impl Into<Vec<u8>>,
        next: impl Fn(SystemTime) -> Option<SystemTime> + Send + Sync + 'static,
    ) -> Builder {
        let recurring = Recurring { payload: payload.into().into(), next: Arc::new(next) };
        self.config.recurring.insert(name.as_ref().into(), recurring);
        self
    }

    /// For one of several services that share a store: only the names that are in its shard.
    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(crate) fn recurring_in(mut self, is_in_shard: impl Fn(&Key) -> bool) -> Builder {
        self.config.recurring.retain(|name, _| is_in_shard(name));
        self
    }

    /// How the threads' names begin. Default: `durable`.
    pub fn thread_name(mut self, name: impl Into<String>) -> Builder {
        self.config.thread_name = name.into();
        self
    }

    /// Calls `callback` once, with what [`failure`](crate::Durable::failure) then says: if the
    /// store fails, if the runtime of asynchronous handlers ends, and in a cluster if the lease of
    /// the shard is over. The service then fires nothing more and refuses everything; open a new
    /// one on a new opening of the store.
    ///
    /// The callback runs on the thread that finds the failure. It must not stop the service or wait
    /// for it; it tells another thread to.
    pub fn on_failure(mut self, callback: impl Fn(&StoreError) + Send + Sync + 'static) -> Builder {
        self.config.on_failure = Some(Arc::new(callback));
        self
    }

    /// For one of several services that share a store. A timer that waits for the next holder of
    /// its shard is not missed, so it takes longer than `gap` to miss one.
    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(crate) fn share(mut self, share: Arc<dyn Share>, gap: Duration) -> Builder {
        self.config.share = Some(share);
        self.config.misfire_after = self.config.misfire_after.max(gap);
        self
    }

    /// Calls this before the callback of [`on_failure`](Builder::on_failure).
    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(crate) fn on_failure_first(self, first: impl Fn() + Send + Sync + 'static) -> Builder {
        let then = self.config.on_failure.clone();
        self.on_failure(move |error| {
            first();
            if let Some(then) = &then {
                then(error);
            }
        })
    }

    /// Opens the service on a store. Timers that are due begin to fire.
    ///
    /// `handler` is called with each timer that is due, on one of the service's threads. If it
    /// returns `Ok`, the timer is over. If it returns an error or panics, the timer is tried again:
    /// see [`Retry`].
    ///
    /// # Errors
    /// The store cannot be used, or a thread cannot be started.
    pub fn open<P: Payload, E: Into<Retry>>(
        self,
        store: impl Store,
        handler: impl Fn(&Firing<P>) -> Result<(), E> + Send + Sync + 'static,
    ) -> Result<Durable<P>, OpenError> {
        self.open_with(store, &erase(handler))
    }

    /// Opens the service on a store, with a handler that is asynchronous. Its futures are tasks of
    /// `runtime`: at most `tasks` at a time, at least one. [`workers`](Builder::workers) counts for
    /// nothing here.
    ///
    /// A task is over when its future has returned: with `Ok`, the timer is over; after an error or
    /// a panic, it is tried again. If the store fails, or in a cluster the lease is over, the tasks
    /// that run are aborted where they wait next, and so are those that an end of the service
    /// [leaves behind](Durable::stop_within); their timers come again. If the runtime ends before
    /// the service, the service has failed.
    ///
    /// This call, [`stop`](Durable::stop) and the drop of the last [`Durable`] block: inside a
    /// task, call them by `spawn_blocking`. A handler must not stop its service and wait for that.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tickless_durable::{Durable, Firing, RedbStore};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("timers.redb");
    /// let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    /// let (sender, mut sent) = tokio::sync::mpsc::unbounded_channel();
    /// let handler = move |firing: Firing<String>| {
    ///     let sender = sender.clone();
    ///     async move {
    ///         tokio::time::sleep(Duration::from_millis(1)).await;
    ///         sender.send(firing.payload().clone())
    ///     }
    /// };
    /// let store = RedbStore::open(path)?;
    /// let timers = Durable::builder().open_async(store, runtime.handle(), 100, handler)?;
    /// timers.schedule(SystemTime::now(), "tea".to_owned())?.wait()?;
    /// assert_eq!(runtime.block_on(sent.recv()).as_deref(), Some("tea"));
    /// timers.stop()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Builder::open).
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub fn open_async<P: Payload, E: Into<Retry>, F>(
        mut self,
        store: impl Store,
        runtime: &tokio::runtime::Handle,
        tasks: usize,
        handler: impl Fn(Firing<P>) -> F + Send + Sync + 'static,
    ) -> Result<Durable<P>, OpenError>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.config.tasks = Some(tasks.max(1));
        self.open_with(store, &super::tasks::erase(runtime.clone(), handler))
    }

    fn open_with<P: Payload>(
        self,
        mut store: impl Store,
        run: &Arc<Run>,
    ) -> Result<Durable<P>, OpenError> {
        let mut numbers = Numbers::begin(&mut store)?;
        let share = self.config.share.as_deref();
        let now = share.map_or_else(SystemTime::now, Share::now);
        let served_ms = share.map_or(0, Share::served_ms);
        let pauses = self.config.pauses.clone().map_or_else(|| store.pauses(), Ok)?;
        misfire::settle(&mut store, &self.config, ms_passed(now), served_ms, &pauses)?;
        recurring::settle(&mut store, &self.config, &mut numbers, now)?;
        let name = format!("{}-engine", self.config.thread_name);
        let engine = Engine::builder().shards(1).thread_name(name).build();
        let engine = engine.map_err(OpenError::Engine)?;
        let wall = WallTimers::new(&engine).map_err(OpenError::Thread)?;
        let core = Core::new(self.config, engine, wall, numbers, ms_passed(now), pauses);
        let owner = Owner::start(&core, store, run).map_err(OpenError::Thread)?;
        Ok(Durable::owned(core, owner))
    }

    /// Opens a service without threads, whose clocks are moved and whose steps are made by hand.
    #[doc(hidden)]
    pub fn open_by_hand<P: Payload, E: Into<Retry>, S: Store>(
        self,
        mut store: S,
        now: SystemTime,
        handler: impl Fn(&Firing<P>) -> Result<(), E> + Send + Sync + 'static,
    ) -> Result<ByHand<P, S>, OpenError> {
        let mut numbers = Numbers::begin(&mut store)?;
        let pauses = store.pauses()?;
        misfire::settle(&mut store, &self.config, ms_passed(now), 0, &pauses)?;
        recurring::settle(&mut store, &self.config, &mut numbers, now)?;
        let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build();
        let engine = engine.map_err(OpenError::Engine)?;
        let wall = WallTimers::by_hand(&engine, now);
        // The steps are made when the test says so.
        let config = Config { linger: Duration::ZERO, ..self.config };
        let core = Core::new(config, engine, wall, numbers, ms_passed(now), pauses);
        Ok(ByHand::new(core, store, erase(handler)))
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}
