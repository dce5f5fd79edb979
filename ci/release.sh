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
# In pieces that are compiled side by side: they run for seconds.
cargo nextest run --cargo-quiet --locked --all-features --release --profile "ci${LONG:+-long}" \
    --config "profile.release.package.tickless.codegen-units=16" "${tests[@]}"
