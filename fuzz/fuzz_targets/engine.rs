//! Fuzzes the engine against a sorted map, also in any geometry and with any tick: see
//! `tests/models/src/engine_model/mod.rs`.

#![no_main]

use models::engine_model;
use models::engine_model::case::{Case, Free};

libfuzzer_sys::fuzz_target!(|drawn: (Option<Free>, Case)| {
    let (free, mut case) = drawn;
    case.config.free = free;
    engine_model::run(&case);
    engine_model::run_in_crowds(&case);
});
