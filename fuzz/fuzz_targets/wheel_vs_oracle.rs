//! Fuzzes the wheels against a sorted map: see `fuzz/ops_model.rs`.

#![no_main]

#[path = "../ops_model.rs"]
mod ops_model;
#[path = "../when.rs"]
mod when;

libfuzzer_sys::fuzz_target!(|case: ops_model::Case| ops_model::run(&case));
