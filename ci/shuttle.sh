#!/usr/bin/env bash
# The models' bodies on threads of the system; then these, and those that are too big for the model
# checker, under the random scheduler. Arguments go to nextest: `ci/shuttle.sh --test crowd` runs one file. In the environment:
#   TICKLESS_SCHEDULES   schedules of each kind for each body
#   TICKLESS_SEED        what they are drawn from
#   SHUTTLE_RANDOM_SEED  of one schedule, as a failure names it: runs that one first
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_nextest
[ $# -gt 0 ] || some_tests cargo test -p loom-tests
export RUSTFLAGS="--cfg shuttle"
export CARGO_TARGET_DIR=target/shuttle
cargo nextest run --locked --cargo-profile models --package loom-tests --profile models "$@"
