#!/usr/bin/env bash
# Every handshake between threads, in all interleavings up to a number of preemptions that each
# model names. The environment may add to it (MORE_PREEMPTIONS). Arguments go to nextest: `ci/loom.sh --test doorbell` runs one file.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_nextest
need_command python3 python3
# What shows that the models can fail still fits the sources.
loom-tests/mutants.py --check
# crossbeam_sanitize makes the epoch collect after a few retirements instead of hundreds.
export RUSTFLAGS="--cfg loom --cfg crossbeam_loom --cfg crossbeam_sanitize"
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
export CARGO_TARGET_DIR=target/loom
export LOOM_LOCATION=1
no_line_tables
lint_what_is_built
# The time goes into loom, which has no assertions of its own here and is optimized as a whole. The models
# are optimized a little, which saves half of their build.
MODELS+=(--config 'profile.release.package.loom.debug-assertions=false'
    --config 'profile.release.package.loom.overflow-checks=false'
    --config 'profile.release.package.loom.codegen-units=1'
    --config 'profile.release.package.loom-tests.opt-level=1')
# The only limit of time is the profile's: loom's own limits end a model as if it had passed.
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS
cargo nextest run --cargo-quiet --locked --release "${MODELS[@]}" --package loom-tests \
    --profile "loom${LONG:+-long}" "$@"
