//! [ARCHITECTURE.md]: https://docs.rs/crate/tickless/latest/source/ARCHITECTURE.md
//! [CONTRIBUTING.md]: https://docs.rs/crate/tickless/latest/source/CONTRIBUTING.md
//! [PERF.md]: https://docs.rs/crate/tickless/latest/source/PERF.md
//! [SECURITY.md]: https://docs.rs/crate/tickless/latest/source/SECURITY.md
//! [tests/README.md]: https://docs.rs/crate/tickless/latest/source/tests/README.md
//! [proofs]: https://docs.rs/crate/tickless/latest/source/proofs/README.md
//!
// The first definition of a link counts, so these stand in for the README's own: at docs.rs there
// is no repository, only the package. The picture's has all of it.
#![doc = include_str!("../docs/http.md")]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[macro_use(debug, display, unwind_safe)]
extern crate tickless_sync;

pub mod dispatch;
/// Pages about the crate as a whole: a guide, when to take another timer, how to port from one, the
/// systems that it runs on, and what an auditor needs.
pub mod docs {
    #[doc = include_str!("../docs/adapters.md")]
    #[doc = "```ignore"]
    #[doc = include_str!("../docs/server.rs")]
    #[doc = "```"]
    pub mod adapters {}
    #[doc = include_str!("../docs/compare.md")]
    pub mod compare {}
    #[doc = include_str!("../docs/guide.md")]
    pub mod guide {}
    #[cfg(feature = "serde")]
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
mod engine;
mod error;
pub mod future;
/// What the crates of this repository that stand on this one need beside what is public. It may
/// change in any release.
#[doc(hidden)]
pub mod internal {
    pub use crate::dispatch::inside::{Party, work_for};
    pub use crate::engine::{Cancel, EngineRef, EngineTicks, HandleTicks};
    pub use crate::wait::waiting::{Ends, Sleeper, deadline_in, wait_for_end};
    pub use tickless_core::dispatch::{Panics, Runs, contained};
    pub use tickless_core::os::Process;
    pub use tickless_sync::{debug, display, protocol, unwind_safe};
    /// What threads share.
    pub mod sync {
        pub use tickless_sync::*;
    }
}
pub mod local;
pub mod periodic;
pub mod scope;
#[cfg(feature = "test-util")]
pub mod test;
pub mod wait;
pub mod wall;

#[doc(inline)]
pub use dispatch::{Batch, Due, Handler, Inline, IntoPayload, Task};
#[cfg(feature = "serde")]
pub use engine::Listing;
pub use engine::{
    Builder, CancelOnDrop, Driven, Driver, DueCount, DueTime, Engine, EnterGuard, Handle,
    LevelCount, Overdue, PendingTimer, SetGlobalError, Snapshot, State, Stats, Stopped, Turn, View,
    Waitable, When, now,
};
#[cfg(feature = "metrics")]
pub use engine::{Metrics, MetricsPublisher};
#[doc(inline)]
pub use error::{
    BindError, BuildError, GlobalReason, Refused, ResetError, ScheduleError, ScheduleReason,
    StopError, TurnError,
};
#[doc(inline)]
pub use future::{interval, interval_at, sleep, sleep_until, timeout, timeout_at};
#[doc(inline)]
pub use reaper::{Lateness, StuckTask, TaskPanic};
#[doc(inline)]
pub use scope::Scope;
#[doc(hidden)]
pub use shard::Violation;
#[doc(inline)]
pub use time::{Clock, GeometryError, ManualClock, Tick};

// The rooms of the core, under the names that they have there.
use tickless_core::{doorbell, entry, memory, os, producer, reaper, shard, time};
use tickless_sync::{self as sync, protocol};
