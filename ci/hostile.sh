#!/usr/bin/env bash
# Every test that does not look at real time passes on one processor beside four busy loops, while its
# processes are stopped for 3 s at random moments. Arguments choose tests, as for `cargo test`.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_command python3 python3
export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.1}"
tests=("$@")
[ $# -gt 0 ] || tests=(--package tickless --package tickless-core --package tickless-wheel --package tickless-demo
    --package tickless-c --package tickless-durable --package race-tests --package loom-tests --package histories --tests)
cargo test --locked "${tests[@]}" --no-run
for _ in 1 2 3 4; do
    taskset -c 0 sh -c 'while :; do :; done' &
    trap 'kill $(jobs -p)' EXIT
done
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$PWD/ci/hostile.py" \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$PWD/ci/hostile.py" \
    some_tests cargo test --locked --no-fail-fast "${tests[@]}"
