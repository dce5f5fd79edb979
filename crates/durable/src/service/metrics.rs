//! Publishes what services count through the `metrics` facade.
//!
//! *Tested by*: `tests/seen.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ::metrics::{Label, Unit};

use crate::store::Contents;

use super::durable::Durable;
use super::stats::Stats;

/// Publishes the numbers of a service, or of all shards that an instance of a cluster holds, to the
/// recorder of the [`metrics`](::metrics) facade.
///
/// Nothing is published by itself: call [`publish`](Metrics::publish) before each scrape. The
/// service does no work for this, and this does not keep it open.
///
/// All metrics have the label `service`, whose value is
/// [`Builder::thread_name`](crate::Builder::thread_name), and those of a cluster also `shard`.
///
/// | name | type | unit | what it is |
/// |---|---|---|---|
/// | `tickless_durable_scheduled_total` | counter | timers | [`Stats::scheduled`] |
/// | `tickless_durable_stored_total` | counter | timers | [`Stats::stored`] |
/// | `tickless_durable_elided_total` | counter | timers | [`Stats::elided`] |
/// | `tickless_durable_fired_total` | counter | times | [`Stats::fired`] |
/// | `tickless_durable_failed_total` | counter | times | [`Stats::failed`] |
/// | `tickless_durable_retried_total` | counter | times | [`Stats::retried`] |
/// | `tickless_durable_noted_total` | counter | times | [`Stats::noted`] |
/// | `tickless_durable_buried_total` | counter | timers | [`Stats::buried`] |
/// | `tickless_durable_batches_total` | counter | batches | [`Stats::batches`] |
/// | `tickless_durable_refills_total` | counter | times | [`Stats::refills`] |
/// | `tickless_durable_near` | gauge | timers | [`Stats::near`] |
/// | `tickless_durable_busy` | gauge | timers | [`Stats::busy`] |
/// | `tickless_durable_stuck` | gauge | handlers | [`Stats::stuck`] |
/// | `tickless_durable_lag_seconds` | gauge | seconds | [`Stats::lag`] |
/// | `tickless_durable_pauses` | gauge | pauses | [`Stats::pauses`] |
/// | `tickless_durable_late_seconds` | histogram | seconds | how late handlers began |
/// | `tickless_durable_handler_seconds` | histogram | seconds | how long they took |
/// | `tickless_durable_pending` | gauge | timers | [below](Metrics::publish_contents) |
/// | `tickless_durable_dead_letters` | gauge | timers | the same |
///
/// The histograms begin when something is published for the first time.
///
/// The gauges of a shard that an instance no longer holds are zero. So have an alert look at what
/// each instance of a cluster publishes for all shards, with the label `shard` alone, from the
/// database:
///
/// | name | type | unit | what it is |
/// |---|---|---|---|
/// | `tickless_durable_overdue_seconds` | gauge | seconds | `Cluster::lags` |
///
/// And without labels, of the instance:
///
/// | name | type | unit | what it is |
/// |---|---|---|---|
/// | `tickless_durable_shards_held` | gauge | shards | how many `Cluster::shards` there are |
/// | `tickless_durable_failing` | gauge | | 1 while `Cluster::failure` says something, or else 0 |
///
/// `crates/durable/monitoring` of the repository has rules of Prometheus's for alerts and a
/// dashboard of Grafana's, which go by these names.
///
/// ```
/// use tickless_durable::{Durable, Firing, RedbStore};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timers.redb");
/// let handler = |_: &Firing<String>| Ok::<(), std::io::Error>(());
/// let timers = Durable::builder().open(RedbStore::open(path)?, handler)?;
/// let mut metrics = timers.metrics();
/// metrics.publish();
/// # timers.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Metrics {
    read: Box<dyn Fn() -> Vec<(Place, Stats)> + Send>,
    /// How late all shards of a cluster are.
    lags: Box<dyn Fn() -> Vec<(u32, Duration)> + Send>,
    /// Of an instance: how many shards it holds, and whether it fails.
    #[cfg(any(feature = "postgres", feature = "nats"))]
    instance: Option<Box<dyn Fn() -> [f64; 2] + Send>>,
    /// What was published last.
    seen: BTreeMap<Place, Stats>,
}

/// A service: its name, and in a cluster its shard and the fence with which that was taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) service: String,
    pub(crate) shard: Option<(u32, u64)>,
}

type Counter = (&'static str, &'static str, fn(&Stats) -> u64);
type Gauge = (&'static str, &'static str, fn(&Stats) -> f64);

const COUNTERS: [Counter; 10] = [
    ("tickless_durable_scheduled_total", "Timers that were scheduled.", |s| s.scheduled),
    ("tickless_durable_stored_total", "New timers in the store.", |s| s.stored),
    ("tickless_durable_elided_total", "Timers cancelled before they were stored.", |s| s.elided),
    ("tickless_durable_fired_total", "Times that a handler was called.", |s| s.fired),
    ("tickless_durable_failed_total", "Times that a handler failed.", |s| s.failed),
    ("tickless_durable_retried_total", "Times that a timer was put off.", |s| s.retried),
    ("tickless_durable_noted_total", "Attempts noted before they began.", |s| s.noted),
    ("tickless_durable_buried_total", "Timers that became dead letters.", |s| s.buried),
    ("tickless_durable_batches_total", "Batches that were committed.", |s| s.batches),
    ("tickless_durable_refills_total", "Pages read from the store.", |s| s.refills),
];

const GAUGES: [Gauge; 5] = [
    ("tickless_durable_near", "Timers in memory.", |s| s.near as f64),
    ("tickless_durable_busy", "Timers that are due and not over.", |s| s.busy as f64),
    ("tickless_durable_stuck", "Handlers that run for too long.", |s| s.stuck as f64),
    ("tickless_durable_lag_seconds", "How late the first waiting timer is.", |s| {
        s.lag.as_secs_f64()
    }),
    ("tickless_durable_pauses", "Pauses that there are.", |s| s.pauses as f64),
];

const HISTOGRAMS: [(&str, &str); 2] = [
    ("tickless_durable_late_seconds", "How late handlers began."),
    ("tickless_durable_handler_seconds", "How long handlers took."),
];

const CONTENTS: [(&str, &str); 2] = [
    ("tickless_durable_pending", "Timers in the store."),
    ("tickless_durable_dead_letters", "Dead letters in the store."),
];

/// Of an instance of a cluster.
#[cfg(any(feature = "postgres", feature = "nats"))]
const INSTANCE: [(&str, &str); 2] = [
    ("tickless_durable_shards_held", "Shards that this instance holds."),
    ("tickless_durable_failing", "Whether this instance fails at something."),
];

/// By shard, also those of others and of nobody.
const OVERDUE: &str = "tickless_durable_overdue_seconds";

// === impl Durable ===

impl<P> Durable<P> {
    /// From now on, how late handlers begin and how long they take is told to the recorder that is
    /// installed at the first call.
    pub(crate) fn measure(&self, place: &Place) {
        self.core.histograms.get_or_init(|| {
            HISTOGRAMS.map(|(name, _)| ::metrics::histogram!(name, place.labels()))
        });
    }
}

impl<P: 'static> Durable<P> {
    /// Describes this service's metrics to the recorder that is installed.
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn metrics(&self) -> Metrics {
        let service: Durable<P> = Durable::borrowed(&self.core);
        let place = Place { service: self.core.config.thread_name.clone(), shard: None };
        Metrics::new(move || {
            service.measure(&place);
            vec![(place.clone(), service.stats())]
        })
    }
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new(read: impl Fn() -> Vec<(Place, Stats)> + Send + 'static) -> Metrics {
        for (name, text, _) in COUNTERS {
            ::metrics::describe_counter!(name, Unit::Count, text);
        }
        for (name, text, _) in GAUGES {
            let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
            ::metrics::describe_gauge!(name, unit, text);
        }
        for (name, text) in HISTOGRAMS {
            ::metrics::describe_histogram!(name, Unit::Seconds, text);
        }
        for (name, text) in CONTENTS {
            ::metrics::describe_gauge!(name, Unit::Count, text);
        }
        Metrics {
            read: Box::new(read),
            lags: Box::new(Vec::new),
            #[cfg(any(feature = "postgres", feature = "nats"))]
            instance: None,
            seen: BTreeMap::new(),
        }
    }

    /// Publishes also how late all shards are.
    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(crate) fn of_all_shards(
        self,
        lags: impl Fn() -> Vec<(u32, Duration)> + Send + 'static,
        instance: impl Fn() -> [f64; 2] + Send + 'static,
    ) -> Metrics {
        let text = "For how long the first timer of a shard has been due.";
        ::metrics::describe_gauge!(OVERDUE, Unit::Seconds, text);
        for (name, text) in INSTANCE {
            ::metrics::describe_gauge!(name, Unit::Count, text);
        }
        Metrics { lags: Box::new(lags), instance: Some(Box::new(instance)), ..self }
    }

    /// Publishes how much is in the store, with the label `shard` of a cluster's: what
    /// [`Durable::contents`] or `Cluster::contents` has returned. Databases count their rows for
    /// that, so it is not done each time.
    pub fn publish_contents(&self, shard: Option<u32>, contents: &Contents) {
        let labels: Vec<Label> =
            shard.map(|shard| Label::new("shard", shard.to_string())).into_iter().collect();
        let values = [contents.timers, contents.dead_letters];
        for ((name, _), value) in CONTENTS.iter().zip(values) {
            ::metrics::gauge!(*name, labels.clone()).set(value as f64);
        }
    }

    /// Publishes what was counted since the last time, and what is the case now.
    pub fn publish(&mut self) {
        let now: BTreeMap<Place, Stats> = (self.read)().into_iter().collect();
        // First, so that a shard that was taken anew shows what it has.
        for gone in self.seen.keys().filter(|place| !now.contains_key(place)) {
            for (name, _, _) in GAUGES {
                ::metrics::gauge!(name, gone.labels()).set(0.0);
            }
        }
        for (place, stats) in &now {
            let before = self.seen.get(place).copied().unwrap_or_default();
            for (name, _, read) in COUNTERS {
                let more = read(stats).saturating_sub(read(&before));
                ::metrics::counter!(name, place.labels()).increment(more);
            }
            for (name, _, read) in GAUGES {
                ::metrics::gauge!(name, place.labels()).set(read(stats));
            }
        }
        self.seen = now;
        #[cfg(any(feature = "postgres", feature = "nats"))]
        for ((name, _), value) in
            INSTANCE.iter().zip(self.instance.as_ref().map(|of| of()).into_iter().flatten())
        {
            ::metrics::gauge!(*name).set(value);
        }
        for (shard, lag) in (self.lags)() {
            let labels = vec![Label::new("shard", shard.to_string())];
            ::metrics::gauge!(OVERDUE, labels).set(lag.as_secs_f64());
        }
    }
}

impl Place {
    fn labels(&self) -> Vec<Label> {
        let shard = self.shard.map(|(shard, _)| Label::new("shard", shard.to_string()));
        [Label::new("service", self.service.clone())].into_iter().chain(shard).collect()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("seen", &self.seen.len()).finish_non_exhaustive()
    }
}
