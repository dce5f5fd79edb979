#!/usr/bin/env bash
# No warning, from the compiler or from clippy, in anything that is built: the crate, its tests,
# benches and examples; the models, in each of their worlds; the fuzz targets.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The features are those of the two crates.
cargo clippy --quiet --locked --package tickless --package tickless-wheel --all-targets -- -D warnings
# Durable timers have a stage of their own: their stores are large, and need a newer compiler.
cargo clippy --quiet --locked --workspace --exclude tickless-durable --all-targets --all-features \
    -- -D warnings
# The rest side by side: each has a target directory of its own.
jobs=()
# Nothing is linked here, so libFuzzer need not be built, which comes as C++.
CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a \
    cargo clippy --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir target/clippy-fuzz \
    -- -D warnings &
jobs+=($!)
RUSTFLAGS="--cfg loom --cfg crossbeam_loom" CARGO_TARGET_DIR=target/clippy-loom \
    cargo clippy --quiet --locked --package loom-tests --all-targets -- -D warnings &
jobs+=($!)
RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/clippy-shuttle \
    cargo clippy --quiet --locked --package loom-tests --all-targets -- -D warnings &
jobs+=($!)
for job in "${jobs[@]}"; do
    wait "$job"
done
