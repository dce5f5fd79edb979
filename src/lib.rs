//! [ARCHITECTURE.md]: https://docs.rs/crate/tickless/latest/source/ARCHITECTURE.md
//! [CONTRIBUTING.md]: https://docs.rs/crate/tickless/latest/source/CONTRIBUTING.md
//! [PERF.md]: https://docs.rs/crate/tickless/latest/source/PERF.md
//! [SECURITY.md]: https://docs.rs/crate/tickless/latest/source/SECURITY.md
//! [tests/README.md]: https://docs.rs/crate/tickless/latest/source/tests/README.md
//! [proofs]: https://docs.rs/crate/tickless/latest/source/proofs/README.md
//!
// The first definition of a link counts, so these stand in for the README's own: at docs.rs there
// is no repository, only the package.
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Users need not know that the models leave the engine out.
#![cfg_attr(docsrs, doc(auto_cfg(hide(loom, shuttle))))]

#[macro_use]
mod macros;

pub mod dispatch;
/// Pages about the crate as a whole: a guide, when to take another timer, how to port from one, the
/// systems that it runs on, and what an auditor needs.
#[cfg(not(any(loom, shuttle)))]
pub mod docs {
    #[doc = include_str!("../docs/adapters.md")]
    pub mod adapters {}
    #[doc = include_str!("../docs/compare.md")]
    pub mod compare {}
    #[doc = include_str!("../docs/guide.md")]
    pub mod guide {}
    #[cfg(feature = "serde")]
    #[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
    #[doc = include_str!("../docs/json.md")]
    pub mod json {}
    #[doc = include_str!("../docs/porting.md")]
    pub mod porting {}
    #[doc = include_str!("../SECURITY.md")]
    pub mod security {}
    #[doc = include_str!("../docs/systems.md")]
    pub mod systems {}
    #[doc = include_str!("../docs/unsafe.md")]
    pub mod unsafe_code {}
}
#[cfg(not(any(loom, shuttle)))]
mod engine;
mod error;
#[cfg(not(any(loom, shuttle)))]
pub mod future;
#[cfg(all(feature = "inspect", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "inspect")))]
pub mod inspect;
#[cfg(all(feature = "keyed", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "keyed")))]
pub mod keyed;
pub mod local;
#[cfg(not(any(loom, shuttle)))]
pub mod netty;
#[cfg(not(any(loom, shuttle)))]
pub mod periodic;
#[cfg(not(any(loom, shuttle)))]
pub mod purgatory;
#[cfg(not(any(loom, shuttle)))]
pub mod scope;
#[cfg(all(feature = "test-util", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub mod test;
#[cfg(not(any(loom, shuttle)))]
pub mod wait;
#[cfg(not(any(loom, shuttle)))]
pub mod wall;

// Public for this repository's models, tests and benches alone: not part of the API, and free to
// change in any release.
#[doc(hidden)]
pub mod doorbell;
#[doc(hidden)]
pub mod entry;
#[doc(hidden)]
pub mod inbox;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod os;
#[doc(hidden)]
pub mod producer;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
pub mod reaper;
#[doc(hidden)]
pub mod shard;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod time;
#[doc(hidden)]
pub mod wheel;

#[doc(inline)]
pub use dispatch::{Batch, Due, Handler, Inline, IntoPayload, SlowTask, Task};
#[cfg(all(feature = "serde", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
pub use engine::Listing;
#[cfg(not(any(loom, shuttle)))]
pub use engine::{
    Builder, CancelOnDrop, Driven, Driver, DueCount, DueTime, Engine, EnterGuard, Handle,
    LevelCount, Overdue, PendingTimer, SetGlobalError, Snapshot, State, Stats, Stopped, Turn,
    Waitable, When, now,
};
#[cfg(all(feature = "metrics", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use engine::{Metrics, MetricsPublisher};
pub use error::{
    BindError, BuildError, GlobalReason, Refused, ResetError, ScheduleError, ScheduleReason,
    StopError, TurnError,
};
#[cfg(not(any(loom, shuttle)))]
#[doc(inline)]
pub use future::{interval, interval_at, sleep, sleep_until, timeout, timeout_at};
pub use reaper::{Lateness, StuckTask, TaskPanic};
#[cfg(not(any(loom, shuttle)))]
#[doc(inline)]
pub use scope::Scope;
#[doc(hidden)]
pub use shard::Violation;
#[doc(inline)]
pub use time::{Clock, GeometryError, ManualClock, Tick};
