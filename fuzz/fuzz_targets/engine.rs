//! Fuzzes the engine against a sorted map, also in any geometry and with any tick: see
//! `tests/models/src/engine_model/mod.rs`.

#![no_main]

use models::engine_model::case::{Case, Free};
use models::{engine_model, events};

libfuzzer_sys::fuzz_target!(|drawn: (Option<Free>, Case)| {
    events::report_at_exit();
    let (free, mut case) = drawn;
    case.config.free = free;
    engine_model::run(&case);
    engine_model::run_in_crowds(&case);
});
