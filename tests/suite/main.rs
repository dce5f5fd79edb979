//! The tests of one thread at a time that may share a process: a program of many files, which
//! is built faster than many programs. Those with several threads at once are in
//! `tests/races/main.rs`, those that compare with oracles in `tests/oracles.rs`, those that look at
//! real time in `tests/realtime/main.rs`, those with hyper and quinn in `tests/clients/main.rs`.
//!
//! A file of tests that counts what the whole process has or does (memory, threads, open files,
//! subscribers), forks, or uses the process's engine is a program of its own, and has an entry
//! in `Cargo.toml`. Any other is a module of one of these. What several files need is in
//! `common/`.

#[path = "common/account.rs"]
mod account;
#[path = "common/awaited.rs"]
mod awaited;
#[path = "common/bad_hash.rs"]
mod bad_hash;
#[path = "common/by_hand.rs"]
mod by_hand;
#[path = "common/mod.rs"]
mod common;
#[path = "common/crowd.rs"]
mod crowd;
#[path = "common/emptied.rs"]
mod emptied;
#[path = "common/hands.rs"]
mod hands;
#[path = "common/keyed_timers.rs"]
mod keyed_timers;
#[path = "common/operation.rs"]
mod operation;
#[path = "common/panicky.rs"]
mod panicky;
#[path = "common/patience.rs"]
mod patience;
#[path = "common/planned.rs"]
mod planned;
#[path = "common/polling.rs"]
mod polling;
#[path = "common/queued.rs"]
mod queued;
#[path = "common/random.rs"]
mod random;
#[path = "common/slow.rs"]
mod slow;
#[path = "common/threads.rs"]
mod threads;
#[path = "common/token.rs"]
mod token;
#[path = "common/ttl_map.rs"]
mod ttl_map;
#[path = "common/waiting.rs"]
mod waiting;
#[path = "common/walls.rs"]
mod walls;

mod background;
mod callers;
mod crowds;
mod delay_queue;
mod delay_queue_ends;
mod delay_queue_items;
mod delay_queue_live;
mod delay_queue_oracle;
mod delay_queue_wakes;
mod dispatch_rayon;
mod dispatch_senders;
mod dispatch_tokio;
mod doors_dropped;
mod drive;
mod drive_attacks;
mod drive_live;
mod few;
mod future_ends;
mod future_interval;
mod future_panics;
mod future_refused;
mod future_tasks;
mod future_tokio;
mod future_tokio_ticks;
mod future_tower;
mod future_wakers;
mod idle;
mod inspect;
mod inspect_ends;
mod json;
mod keyed;
mod keyed_ends;
mod keyed_hook;
mod keyed_keys;
mod keyed_panics;
mod late_turns;
mod limits;
mod limits_of_sleeps;
mod metrics;
mod netty;
mod netty_faults;
mod order;
mod paused;
mod periodic;
mod periodic_panics;
mod precise;
mod purgatory;
mod purgatory_ends;
mod purgatory_keys;
mod purgatory_panics;
mod purgatory_reentry;
mod retry;
mod retry_async;
mod rounds;
mod saturation;
mod scope;
mod size;
mod slack;
mod stats;
mod ttl;
mod ttl_ends;
mod ttl_oracle;
mod virtual_time;
mod wait;
mod wall;
mod wall_ends;
