//! Fuzzes the builder: see `fuzz/builder_model.rs`.

#![no_main]

#[path = "../builder_model.rs"]
mod builder_model;

libfuzzer_sys::fuzz_target!(|case: builder_model::Case| builder_model::run(&case));
