//! Observability: what an engine tells about itself.
//!
//! - `view` has the methods of the engine, `stats` and `snapshot` what they return, and `table` how
//!   that prints.
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
