//! Fuzzes a shard whose producers' clocks lag: see `fuzz/shard_model.rs`.

#![no_main]

#[path = "../events.rs"]
mod events;
#[path = "../shard_model.rs"]
mod shard_model;
#[path = "../when.rs"]
mod when;

libfuzzer_sys::fuzz_target!(|case: shard_model::Case| {
    events::report_at_exit();
    shard_model::run(&case);
    shard_model::run_in_crowds(&case);
});
