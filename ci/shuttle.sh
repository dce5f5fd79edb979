#!/usr/bin/env bash
# The models' bodies, and those that are too big for the model checker, under the random scheduler.
# Arguments go to nextest: `ci/shuttle.sh --test crowd` runs one file. In the environment:
#   TICKLESS_SCHEDULES   schedules of each kind for each body
#   TICKLESS_SEED        what they are drawn from
#   SHUTTLE_RANDOM_SEED  of one schedule, as a failure names it: runs that one first
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_nextest
export RUSTFLAGS="--cfg shuttle -C debug-assertions"
export CARGO_TARGET_DIR=target/shuttle
no_line_tables
lint_what_is_built
cargo nextest run --cargo-quiet --locked --release "${MODELS[@]}" --package loom-tests \
    --profile "shuttle${LONG:+-long}" "$@"
