//! Fuzzes the engine against a sorted map: see `fuzz/engine_model/mod.rs`.

#![no_main]

#[path = "../engine_model/mod.rs"]
mod engine_model;
#[path = "../events.rs"]
mod events;
#[path = "../when.rs"]
mod when;

libfuzzer_sys::fuzz_target!(|case: engine_model::case::Case| {
    events::report_at_exit();
    engine_model::run(&case);
    engine_model::run_in_crowds(&case);
});
