//! Fuzzes a shard whose producers' clocks lag: see `tests/models/src/shard_model.rs`.

#![no_main]

use models::shard_model;

libfuzzer_sys::fuzz_target!(|case: shard_model::Case| {
    shard_model::run(&case);
    shard_model::run_in_crowds(&case);
});
