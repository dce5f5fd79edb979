//! Publishes what an engine counts through the `metrics` facade.
//!
//! *Tested by*: `tests/suite/observe/metrics.rs`.

use std::io;
use std::mem;
use std::time::Duration;

use ::metrics::{Counter, Gauge, Histogram, Unit};

use crate::dispatch::{Monitor, Process};
use crate::engine::Engine;
use crate::os::block_signals;
use crate::reaper::{Observer, Seen};
use crate::sync::{Arc, JoinHandle, mpsc, thread};

use super::Stats;

/// Publishes an engine's numbers to the recorder of the [`metrics`](::metrics) facade.
///
/// Nothing is published by itself: call [`publish`](Metrics::publish) before each scrape, or let a
/// thread call it ([`publish_every`](Metrics::publish_every)). The engine's threads and timers do
/// no work for this, and it does not keep the engine running.
///
/// All metrics have the label `engine`, whose value is [`Builder::name`](crate::Builder::name).
///
/// | name | type | unit | what it is |
/// |---|---|---|---|
/// | `tickless_timers_scheduled_total` | counter | timers | [`Stats::scheduled`] |
/// | `tickless_timers_seated_total` | counter | timers | [`Stats::seated`] |
/// | `tickless_timers_cancelled_total` | counter | timers | [`Stats::cancelled`] |
/// | `tickless_timers_reset_total` | counter | resets | [`Stats::reset`] |
/// | `tickless_timers_fired_total` | counter | timers | [`Stats::fired`] |
/// | `tickless_timers_returned_total` | counter | timers | [`Stats::returned`] |
/// | `tickless_timers_cascaded_total` | counter | times | [`Stats::cascaded`] |
/// | `tickless_tasks_panicked_total` | counter | tasks | [`Stats::panicked`] |
/// | `tickless_takeovers_total` | counter | times | [`Stats::takeovers`] |
/// | `tickless_wake_ups_total` | counter | times | [`Stats::wake_ups`] |
/// | `tickless_timers_pending` | gauge | timers | [`Stats::pending`] |
/// | `tickless_timers_unended` | gauge | timers | [`Stats::unended`] |
/// | `tickless_entries_dead` | gauge | entries | [`Stats::dead`] |
/// | `tickless_shards` | gauge | shards | [`Engine::shards`] |
/// | `tickless_tasks_stuck` | gauge | tasks | [`Stats::stuck`] |
/// | `tickless_overdue_seconds` | gauge | seconds | [`Stats::overdue`] |
/// | `tickless_lateness_max_seconds` | gauge | seconds | [`Stats::lateness`]: the maximum so far |
/// | `tickless_lateness_seconds` | histogram | seconds | how late each timer was handed over |
///
/// The histogram also has the label `shard`, so that one late shard shows among many that are not
/// late. Its values are upper bounds, at most 6.25 % too high. The reaper counts latenesses in any
/// case, so the histogram costs it nothing; publishing records the latenesses since the last time,
/// with one `record_many` per distinct value. A recorder that keeps each value by itself (many do)
/// then does the work for all of them at once. If that is too much, leave the histogram out with
/// [`without_histogram`](Metrics::without_histogram).
///
/// ```
/// use tickless::Engine;
///
/// // Install a recorder first. Here there is none, so nothing is recorded.
/// let engine = Engine::builder().name("sessions").build()?;
/// let mut metrics = engine.metrics();
/// // Then, before each scrape:
/// metrics.publish();
/// # Ok::<(), tickless::BuildError>(())
/// ```
pub struct Metrics {
    stats: Monitor<Stats>,
    /// One for each shard.
    observers: Arc<[Observer]>,
    /// With the greatest value so far: what heartbeats do may lower a count for a moment.
    counters: [(Counter, u64); COUNTERS.len()],
    gauges: [Gauge; GAUGES.len()],
    lateness: Vec<(Histogram, Seen)>,
}

/// A thread that publishes an engine's metrics at intervals, until this is dropped.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, MetricsPublisher};
///
/// let engine = Engine::new()?;
/// let publisher: MetricsPublisher = engine.metrics().publish_every(Duration::from_secs(10))?;
/// drop(publisher);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it ends the publishing"]
pub struct MetricsPublisher {
    /// The thread, and what is dropped to end it.
    running: Option<(mpsc::SyncSender<()>, JoinHandle<()>)>,
    /// The process that has the thread.
    process: Process,
}

type ReadCounter = fn(&Stats) -> u64;
type ReadGauge = fn(&Stats, &[Observer]) -> f64;

/// Each counter's name, its description, and how to read it.
const COUNTERS: [(&str, &str, ReadCounter); 10] = [
    ("tickless_timers_scheduled_total", "Timers scheduled.", |s| s.scheduled),
    ("tickless_timers_seated_total", "Timers scheduled in a cancelled one's seat.", |s| s.seated),
    ("tickless_timers_cancelled_total", "Timers cancelled before they fired.", |s| s.cancelled),
    ("tickless_timers_reset_total", "Resets that moved a timer.", |s| s.reset),
    ("tickless_timers_fired_total", "Timers handed over.", |s| s.fired),
    ("tickless_timers_returned_total", "Timers given back by a stop.", |s| s.returned),
    ("tickless_timers_cascaded_total", "Times that a timer was filed again.", |s| s.cascaded),
    ("tickless_tasks_panicked_total", "Tasks that panicked.", |s| s.panicked),
    ("tickless_takeovers_total", "Shards taken over from a stuck task.", |s| s.takeovers),
    ("tickless_wake_ups_total", "Times that a reaper woke up.", |s| s.wake_ups),
];

/// Each gauge's name, its description, and how to read it.
const GAUGES: [(&str, &str, ReadGauge); 7] = [
    ("tickless_timers_pending", "Timers pending.", |s, _| s.pending as f64),
    ("tickless_timers_unended", "Fired timers that are still held.", |s, _| s.unended as f64),
    ("tickless_entries_dead", "Cancelled entries not swept yet.", |s, _| s.dead as f64),
    ("tickless_shards", "Shards.", |_, shards| shards.len() as f64),
    ("tickless_tasks_stuck", "Tasks that are stuck.", |s, _| s.stuck as f64),
    ("tickless_overdue_seconds", "The age of the oldest due timer.", |s, _| {
        s.overdue.as_secs_f64()
    }),
    (MAX_LATENESS, "How late the latest timer was.", |s, _| s.lateness.max.as_secs_f64()),
];

const MAX_LATENESS: &str = "tickless_lateness_max_seconds";
const LATENESS: &str = "tickless_lateness_seconds";

/// The shortest period of a publisher: a thread that publishes without a pause is of no use.
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);

// === impl Metrics ===

impl Metrics {
    /// Describes and registers an engine's metrics with the installed recorder, or with the calling
    /// thread's own. Without a recorder, nothing is ever published.
    fn of(stats: Monitor<Stats>, observers: Arc<[Observer]>) -> Metrics {
        let engine = observers[0].name().to_string();
        let counters = COUNTERS.map(|(name, text, _)| {
            ::metrics::describe_counter!(name, Unit::Count, text);
            (::metrics::counter!(name, "engine" => engine.clone()), 0)
        });
        let gauges = GAUGES.map(|(name, text, _)| {
            let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
            ::metrics::describe_gauge!(name, unit, text);
            ::metrics::gauge!(name, "engine" => engine.clone())
        });
        let text = "How late timers were handed over.";
        ::metrics::describe_histogram!(LATENESS, Unit::Seconds, text);
        let lateness = (0..observers.len()).map(|shard| {
            let (engine, shard) = (engine.clone(), shard.to_string());
            let histogram = ::metrics::histogram!(LATENESS, "engine" => engine, "shard" => shard);
            (histogram, Seen::nothing())
        });
        let lateness = lateness.collect();
        Metrics { stats, observers, counters, gauges, lateness }
    }

    /// Leaves `tickless_lateness_seconds` out of what is published.
    #[must_use]
    pub fn without_histogram(mut self) -> Metrics {
        self.lateness.clear();
        self
    }

    /// Publishes what the engine has counted so far. Waits for no lock of it. O(threads that
    /// use the engine at a time + shards), plus the work of the recorder.
    pub fn publish(&mut self) {
        let (stats, observers) = (self.stats.stats(), &self.observers);
        for ((counter, most), (_, _, read)) in self.counters.iter_mut().zip(COUNTERS) {
            *most = read(&stats).max(*most);
            counter.absolute(*most);
        }
        for (gauge, (_, _, read)) in self.gauges.iter().zip(GAUGES) {
            gauge.set(read(&stats, observers));
        }
        for ((histogram, seen), observer) in self.lateness.iter_mut().zip(&**observers) {
            observer.lateness().report_new(seen, |late, count| {
                histogram.record_many(late, count as usize);
            });
        }
    }

    /// Publishes once every `period` (1 ms at least), on a thread of its own, until the publisher
    /// is dropped, which publishes once more. This thread is the only one that wakes up while the
    /// engine idles.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn publish_every(mut self, period: Duration) -> io::Result<MetricsPublisher> {
        let period = period.max(SHORTEST_PERIOD);
        let (going_on, ended) = mpsc::sync_channel::<()>(1);
        let publish = move || {
            while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(period) {
                self.publish();
            }
            self.publish();
        };
        let _blocked = block_signals();
        let thread = thread::Builder::new().name("tickless-metrics".to_owned()).spawn(publish)?;
        Ok(MetricsPublisher { running: Some((going_on, thread)), process: Process::current() })
    }
}

debug! { impl[] Metrics[] { engine = |this| this.observers[0].name() } }

// === impl MetricsPublisher ===

impl Drop for MetricsPublisher {
    fn drop(&mut self) {
        let Some((going_on, thread)) = self.running.take() else { return };
        if !self.process.is_current() {
            // A child process does not have the thread, and the channel's lock may be held there.
            return mem::forget((going_on, thread));
        }
        drop(going_on);
        // The thread must not join itself: a recorder may drop the publisher on it.
        if thread.thread().id() != thread::current().id() {
            // If the recorder panicked, the panic hook has reported it.
            let _ = thread.join();
        }
    }
}

debug! { impl[] MetricsPublisher[] {} }

// === impl Engine: metrics ===

impl<T: Send + 'static> Engine<T> {
    /// Returns the engine's metrics for the `metrics` facade, registered with the recorder that is
    /// installed now. Make one and keep it: if there are several, each records every lateness.
    pub fn metrics(&self) -> Metrics {
        let core = self.core().clone();
        let observers = core.observers.clone();
        Metrics::of(Monitor::new(move || Stats::of(&core)), observers)
    }
}
