#!/usr/bin/env bash
# The tests with several threads, optimized as users build them: other timings, other races. Part of
# ci/long.sh: it takes three minutes to build and a quarter of one to run. Arguments go to nextest.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PROGRAMS=(races at_random bounded foreign freed freed_early idle storms threads waiting)

need_nextest
no_line_tables
tests=("$@")
[ $# -gt 0 ] || tests=("${PROGRAMS[@]/#/--test=}")
cargo nextest run --cargo-quiet --locked --all-features --release --profile "ci${LONG:+-long}" \
    --config profile.release.package.tickless.codegen-units=16 "${tests[@]}"
