#!/usr/bin/env bash
# Instructions and allocations per operation stay below their limits, which stand in
# benches/instructions/gate.rs. What was counted comes as a table. Arguments choose operations. With LONG=1
# also those of engines of numbers and of Netty's timer, which are code of their own.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_command valgrind valgrind
# Counts need the names of functions, not of lines; lines take a third of the build.
export CARGO_PROFILE_BENCH_DEBUG=false CARGO_PROFILE_BENCH_STRIP=none
cargo bench --locked --package instructions ${LONG:+--features every} -- "$@" ||
    fail "an operation costs too much, or is not what it was meant to be"
