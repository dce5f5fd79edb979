//! Fuzzes the placement arithmetic: see `fuzz/geometry_model.rs`.

#![no_main]

#[path = "../geometry_model.rs"]
mod geometry_model;

libfuzzer_sys::fuzz_target!(|case: geometry_model::Case| geometry_model::run(&case));
