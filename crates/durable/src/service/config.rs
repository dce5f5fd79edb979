//! The settings of a service, with their defaults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tickless::periodic::{Backoff, Jitter};

use crate::error::StoreError;
use crate::record::{Key, Record};

use super::retry::Limits;
use super::suspects::Alone;

/// What becomes of timers that were due while no service ran.
///
/// It applies to timers that were due more than [`Builder::misfire_after`] before the service is
/// opened and whose records do not say that they were [tried](crate::Record::tried). A timer that
/// has failed before is not missed: it is tried again. One whose first attempt was cut off by the
/// end of its process cannot be told from one that was never tried, so it counts as missed.
///
/// Instances of a cluster know until when another one had a shard. What was due before that is a
/// backlog and was not missed, also if another instance takes the shard over. A file does not say
/// until when it was served, so there all that is due at the opening counts, a backlog of before a
/// stop included.
///
/// [`Builder::misfire_after`]: crate::Builder::misfire_after
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misfire {
    /// All of them fire at once, in order.
    #[default]
    FireAll,
    /// None of them fires: they are taken out of the store. A [recurring] timer then comes at its
    /// next time; one whose handler schedules the next one ends like this as well.
    ///
    /// [recurring]: crate::Builder::recurring
    Skip,
    /// They fire evenly over this time, in order. They are put off in the store, before the service
    /// opens.
    Spread(Duration),
}

/// The limits of a timer's own.
pub(super) type LimitsOf = dyn Fn(&Record) -> Limits + Send + Sync;

pub(super) type OnFailure = Arc<dyn Fn(&StoreError) + Send + Sync>;

/// When the next occurrence is after a time.
pub(super) type Next = dyn Fn(SystemTime) -> Option<SystemTime> + Send + Sync;

/// A recurring timer, which has a name: see `recurring.rs`.
#[derive(Clone)]
pub(super) struct Recurring {
    pub(super) payload: Arc<[u8]>,
    pub(super) next: Arc<Next>,
}

/// What a store that several instances share brings along.
pub(crate) trait Share: Send + Sync {
    /// The time by the clock that all instances have in common. Timers go by it.
    fn now(&self) -> SystemTime;

    /// Until when some instance had these timers before, in milliseconds since 1970: zero if none
    /// ever had.
    fn served_ms(&self) -> u64;

    /// Whether this instance may have the timers fire. It asks right before each handler.
    ///
    /// # Errors
    /// It may not, and never again: another instance can have them by now.
    fn may_fire(&self) -> Result<(), StoreError>;
}

/// For how many lingers a change that nobody waits for waits at most, so that others are written
/// with it. New timers wait for one at least, so while they come, a batch is made in each three.
pub(super) const LINGERS: u32 = 4;

#[derive(Clone)]
pub(super) struct Config {
    pub(super) window: usize,
    pub(super) span: Duration,
    pub(super) linger: Duration,
    pub(super) batch: usize,
    pub(super) max_unwritten: usize,
    pub(super) max_unwritten_bytes: usize,
    pub(super) workers: usize,
    /// How many tasks run at a time, where handlers are tasks.
    pub(super) tasks: Option<usize>,
    pub(super) attempts: u32,
    pub(super) limits: Option<Arc<LimitsOf>>,
    pub(super) crashes: u32,
    pub(super) keep_letters: Option<Duration>,
    pub(super) handler_limit: Option<Duration>,
    pub(super) backoff: Backoff,
    pub(super) misfire: Misfire,
    pub(super) misfire_after: Duration,
    pub(super) recurring: BTreeMap<Key, Recurring>,
    pub(super) thread_name: String,
    pub(super) on_failure: Option<OnFailure>,
    pub(super) share: Option<Arc<dyn Share>>,
    /// The same for all shards of an instance.
    pub(super) alone: Alone,
    /// What is paused when the service is opened. `None`: the store knows.
    pub(super) pauses: Option<Vec<Key>>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            window: 65_536,
            span: Duration::from_secs(3600),
            linger: Duration::from_millis(20),
            batch: 16_384,
            max_unwritten: 1_000_000,
            max_unwritten_bytes: 256 << 20,
            workers: 4,
            tasks: None,
            attempts: 10,
            limits: None,
            crashes: 5,
            keep_letters: None,
            handler_limit: None,
            backoff: Backoff::new(Duration::from_secs(1))
                .max(Duration::from_secs(600))
                .jitter(Jitter::Equal),
            misfire: Misfire::FireAll,
            misfire_after: Duration::from_secs(1),
            recurring: BTreeMap::new(),
            thread_name: "durable".to_owned(),
            on_failure: None,
            share: None,
            alone: Alone::default(),
            pauses: None,
        }
    }
}
