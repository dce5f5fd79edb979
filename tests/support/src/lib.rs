//! What several programs of tests share: engines that are moved by hand, payloads that are
//! accounted for, waits that end, allocators that count. What only one program needs stands in its
//! own folder.
//!
//! Without features this is arithmetic alone, for crates whose tests need no engine.

#![expect(missing_debug_implementations, reason = "nobody prints what tests are made of")]
#![expect(missing_docs, reason = "a name that says it needs no line that repeats it")]

#[cfg(feature = "engine")]
pub mod account;
#[cfg(feature = "engine")]
pub mod alone;
#[cfg(feature = "engine")]
pub mod awaited;
#[cfg(feature = "engine")]
pub mod boxed;
#[cfg(feature = "engine")]
pub mod by_hand;
#[cfg(all(unix, feature = "engine"))]
pub mod child;
#[cfg(feature = "engine")]
pub mod compiled;
#[cfg(feature = "engine")]
pub mod counting;
#[cfg(feature = "engine")]
pub mod emptied;
#[cfg(feature = "engine")]
pub mod hands;
#[cfg(feature = "proptest")]
pub mod hold;
#[cfg(feature = "engine")]
pub mod keyed_timers;
#[cfg(feature = "engine")]
pub mod leaks;
pub mod ledger;
#[cfg(feature = "engine")]
pub mod looked_at;
pub mod mpsc;
#[cfg(feature = "engine")]
pub mod on_shard;
#[cfg(feature = "engine")]
pub mod operation;
pub mod parking;
pub mod patience;
pub mod planned;
pub mod polling;
#[cfg(feature = "engine")]
pub mod queued;
pub mod random;
#[cfg(all(target_os = "linux", not(elsewhere), feature = "engine"))]
pub mod refuse;
#[cfg(feature = "arbitrary")]
pub mod replay;
mod scale;
pub mod slow;
pub mod threads;
pub mod token;
pub mod until;
pub mod watchdog;

pub use scale::{scaled, spread};
