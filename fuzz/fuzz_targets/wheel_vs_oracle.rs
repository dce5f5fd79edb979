#![no_main]

#[path = "../ops_model.rs"]
mod ops_model;

libfuzzer_sys::fuzz_target!(|case: ops_model::Case| ops_model::run(&case));
