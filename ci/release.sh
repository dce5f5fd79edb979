#!/usr/bin/env bash
# What has several threads at once, once more, optimized: that is what users run, and what makes races
# meet. (What has one thread runs optimized in `fuzz`, against the same oracles.) Arguments go to
# nextest.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PROGRAMS=(races at_random bounded foreign freed freed_early idle storms threads waiting)

need_nextest
no_line_tables
tests=("$@")
[ $# -gt 0 ] || tests=("${PROGRAMS[@]/#/--test=}")
cargo nextest run --cargo-quiet --locked --all-features --release --profile "ci${LONG:+-long}" \
    "${QUICK[@]}" "${tests[@]}"
