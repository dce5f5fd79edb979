//! Fuzzes the placement arithmetic: see `tests/models/src/geometry_model.rs`.

#![no_main]

use models::geometry_model;

libfuzzer_sys::fuzz_target!(|case: geometry_model::Case| geometry_model::run(&case));
