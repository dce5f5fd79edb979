//! Fuzzes the builder: see `tests/models/src/builder_model.rs`.

#![no_main]

use models::builder_model;

libfuzzer_sys::fuzz_target!(|case: builder_model::Case| builder_model::run(&case));
