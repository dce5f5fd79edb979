#!/usr/bin/env bash
# Every handshake between threads, in all interleavings up to a number of preemptions that each model
# names. Last, what shows that the models can fail still fits the sources, as does the table of the
# specs. Arguments go to nextest: `ci/loom.sh --test doorbell` runs one file. MORE_PREEMPTIONS adds to what the
# models name; LOOM_LOCATION=1 names the places where one fails, and takes a sixth longer.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_nextest
# crossbeam_sanitize makes the epoch collect after a few retirements instead of hundreds.
export RUSTFLAGS="--cfg loom --cfg crossbeam_loom --cfg crossbeam_sanitize"
export CARGO_TARGET_DIR=target/loom
# Loom's own limits of time end a model as if it had passed.
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS
cargo nextest run --locked --cargo-profile models --package loom-tests --profile models "$@"
need_command python3 python3
loom-tests/mutants.py --fit
python3 proofs/specs/names.py
