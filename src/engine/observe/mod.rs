//! Observability: statistics, snapshots and metrics of an engine.
//!
//! - `view` has the methods of the engine; `stats` and `snapshot` have the types that they return,
//!   and `table` prints those.
//! - `settings` has the methods of the builder: names, thresholds and callbacks.
//! - `metrics` publishes the counters through the `metrics` facade.

#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
mod metrics;
mod settings;
mod snapshot;
mod stats;
mod table;
mod view;

#[cfg(feature = "metrics")]
pub use metrics::{Metrics, MetricsPublisher};
pub use snapshot::{DueCount, DueTime, LevelCount, PendingTimer, Snapshot};
pub use stats::Stats;
