//! The tests with several threads at once that may share a process: they run optimized as well, and
//! under ThreadSanitizer. `tests/suite.rs` has the others, and says what is a program of its own.

#[path = "../common/account.rs"]
mod account;
#[path = "../common/awaited.rs"]
mod awaited;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/emptied.rs"]
mod emptied;
#[path = "../common/on_shard.rs"]
mod on_shard;
#[path = "../common/operation.rs"]
mod operation;
#[path = "../common/parking.rs"]
mod parking;
#[path = "../common/patience.rs"]
mod patience;
#[path = "../common/planned.rs"]
mod planned;
#[path = "../common/polling.rs"]
mod polling;
#[path = "../common/racing.rs"]
mod racing;
#[path = "../common/random.rs"]
mod random;
#[path = "../common/row.rs"]
mod row;
#[path = "../common/slow.rs"]
mod slow;
#[path = "../common/threads.rs"]
mod threads;
#[path = "../common/token.rs"]
mod token;
#[path = "../common/until.rs"]
mod until;
#[path = "../common/watchdog.rs"]
mod watchdog;

mod collisions;
mod delay_queue_races;
mod dispatch_channel;
mod dispatch_ends;
mod dispatch_full;
mod dispatch_inside;
mod dispatch_pool;
mod dispatch_races;
mod doors_on_a_pool;
mod driving;
mod driving_stop;
mod exactly_once;
mod faults;
mod future_races;
mod groups;
mod heartbeat;
mod hooks;
mod inside;
mod inspect_races;
mod keyed_foreign;
mod keyed_races;
mod keyed_waits;
mod known_races;
mod netty_ends;
mod netty_races;
mod never_early;
mod outlive;
mod overdue;
mod panics;
mod periodic_ends;
mod periodic_races;
mod purgatory_races;
mod reset;
mod scan;
mod scope_races;
mod scope_waits;
mod seats;
mod slow_tasks;
mod snapshot;
mod stop;
mod stop_backlog;
mod stop_cycles;
mod stop_sleeps;
mod stop_within;
mod stress;
mod stuck;
mod takeover;
mod threads_end;
mod ttl_races;
mod wait_async;
mod wait_netty;
mod wait_races;
mod wait_repeating;
mod wall_races;
