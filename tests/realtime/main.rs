//! The tests whose verdict depends on real time, or on which thread the system runs: that nothing
//! wakes up for a while, how often something does, that a thread has come by in the meantime. Each
//! of them has a lower bound on time, or none. Upper bounds belong to the benches.
//!
//! A busy machine can make such a test fail for no fault of the engine. So they are one program,
//! which a plain `cargo test` leaves out, and which runs alone, one test after the other:
//!
//! ```text
//! cargo test --test realtime -- --test-threads=1
//! ```
//!
//! The gate (`ci/realtime.sh`) repeats a failed one up to two more times, and names it as flaky.
//! Every other test passes on one processor beside busy loops, stopped at random (`ci/hostile.sh`).

mod attempts;
mod beats;
#[cfg(all(target_os = "linux", not(elsewhere)))]
mod boottime;
mod crowds;
mod groups;
mod idle;
mod known_races;
#[cfg(all(target_os = "linux", not(elsewhere)))]
mod refused;
mod stuck;
mod takeover;
