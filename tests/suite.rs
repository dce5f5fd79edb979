//! The tests that may share a process: one program of many files, which is built faster than many.
//!
//! A file of tests that counts what the whole process has or does (memory, threads, open files,
//! subscribers), forks, or uses the process's engine is a program of its own, and has an entry in
//! `Cargo.toml`. Any other is a module here. What several files need is in `common/`.

#[path = "common/account.rs"]
mod account;
#[path = "common/bad_hash.rs"]
mod bad_hash;
#[path = "../fuzz/builder_model.rs"]
mod builder_model;
#[path = "common/by_hand.rs"]
mod by_hand;
#[path = "common/mod.rs"]
mod common;
#[path = "common/crowd.rs"]
mod crowd;
#[path = "../fuzz/engine_model/mod.rs"]
mod engine_model;
#[path = "../fuzz/geometry_model.rs"]
mod geometry_model;
#[path = "common/hands.rs"]
mod hands;
#[path = "common/histories.rs"]
mod histories;
#[path = "common/hold.rs"]
mod hold;
#[cfg(feature = "keyed")]
#[path = "common/keyed_timers.rs"]
mod keyed_timers;
#[path = "common/operation.rs"]
mod operation;
#[path = "../fuzz/ops_model.rs"]
mod ops_model;
#[path = "common/panicky.rs"]
mod panicky;
#[path = "common/parking.rs"]
mod parking;
#[path = "common/planned.rs"]
mod planned;
#[path = "common/polling.rs"]
mod polling;
#[path = "common/racing.rs"]
mod racing;
#[path = "common/random.rs"]
mod random;
#[path = "common/row.rs"]
mod row;
#[path = "../fuzz/shard_model.rs"]
mod shard_model;
#[path = "common/slow.rs"]
mod slow;
#[path = "common/threads.rs"]
mod threads;
#[path = "common/token.rs"]
mod token;
#[path = "common/waiting.rs"]
mod waiting;
#[path = "common/watchdog.rs"]
mod watchdog;
#[path = "../fuzz/when.rs"]
mod when;

mod backoff;
mod census;
mod citizens;
mod collisions;
mod corpus;
mod dispatch_channel;
mod dispatch_ends;
mod dispatch_full;
mod dispatch_inside;
mod dispatch_pool;
mod dispatch_races;
mod dispatch_tokio;
mod doors_dropped;
mod doors_on_a_pool;
mod driving;
mod driving_stop;
mod engine_oracle;
mod errands;
mod errors;
mod exactly_once;
mod faults;
mod future_ends;
mod future_hyper;
mod future_interval;
mod future_panics;
mod future_races;
mod future_tasks;
mod future_tokio;
mod future_tokio_ticks;
mod golden_placement;
mod golden_trace;
mod hashed;
mod hashed_ends;
mod hashed_faults;
mod hashed_oracle;
mod hashed_races;
mod heartbeat;
mod hooks;
mod inside;
#[cfg(feature = "keyed")]
mod keyed;
#[cfg(feature = "keyed")]
mod keyed_ends;
#[cfg(feature = "keyed")]
mod keyed_foreign;
#[cfg(feature = "keyed")]
mod keyed_hook;
#[cfg(feature = "keyed")]
mod keyed_keys;
#[cfg(feature = "keyed")]
mod keyed_oracle;
#[cfg(feature = "keyed")]
mod keyed_panics;
#[cfg(feature = "keyed")]
mod keyed_races;
mod known_races;
mod late_turns;
mod limits;
mod local_both;
mod local_hashed;
mod local_oracle;
mod local_wheel;
#[cfg(feature = "metrics")]
mod metrics;
mod never_early;
mod order;
mod outlive;
mod panics;
mod periodic;
mod periodic_ends;
mod periodic_oracle;
mod periodic_panics;
mod periodic_races;
mod purgatory;
mod purgatory_ends;
mod purgatory_keys;
mod purgatory_oracle;
mod purgatory_panics;
mod purgatory_races;
mod purgatory_reentry;
mod reset;
mod retry;
mod rounds;
mod saturation;
mod seats;
mod shard_clocks;
mod size;
mod slack;
mod slow_tasks;
mod snapshot;
mod stats;
mod stop;
mod stop_backlog;
mod stop_cycles;
mod stop_within;
mod stress;
mod tables;
mod threads_end;
