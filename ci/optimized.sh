#!/usr/bin/env bash
# The tests optimized, as users build the engine, and at a large scale: other timings, other races, up to
# ten million pending timers (TICKLESS_TEST_SCALE=200). Arguments choose tests, as for `cargo test`.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-20}"
tests=("$@")
[ $# -gt 0 ] || tests=("${ENGINE[@]}" --package={tickless-durable,race-tests} --tests --test races)
some_tests cargo test --locked --release --config profile.release.package.tickless.codegen-units=16 \
    --config profile.release.package.tickless-core.codegen-units=16 "${tests[@]}"
