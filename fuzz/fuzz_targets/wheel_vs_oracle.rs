//! Fuzzes the wheels against a sorted map: see `tests/models/src/ops_model.rs`.

#![no_main]

use models::ops_model;

libfuzzer_sys::fuzz_target!(|case: ops_model::Case| ops_model::run(&case));
