#!/usr/bin/env bash
# The tests and the models' bodies under ThreadSanitizer: accesses to plain memory that nothing
# orders. What it cannot see into, and why, is in tsan.supp. Arguments go to nextest.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# What has several threads at once. (What runs on executors of others, or waits for another thread's
# first use of something, does so by locks of the standard library, which ThreadSanitizer does not see
# through.)
PROGRAMS=(races at_random boottime bounded foreign freed freed_early future_sleep idle keyed_memory
    storms threads waiting)

need_nextest
need_symbolizer
# The sanitizers work on the stable compiler; only their switches are not stable. The standard
# library is not instrumented, which the second flag permits; `tsan` puts a lock that can be seen
# through in the place of the standard one.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg tsan"
export CARGO_TARGET_DIR=target/tsan
lines_for "$@"
# A small part of what they do without: each step costs many times as much.
export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.1}"
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp"

BUILD=(--locked "${OWN_LINES[@]}" --target "$(host)" --package tickless --package loom-tests)
if [ $# -gt 0 ]; then
    BUILD+=(--all-features)
else
    # None of PROGRAMS needs what this leaves out.
    be_quick
fi

build_canary "${BUILD[@]}"
for bug in plain-access relaxed-publication two-owners; do
    finds "$bug" "WARNING: ThreadSanitizer: data race"
done

PROFILE="tsan${LONG:+-long}"
if [ $# -gt 0 ]; then
    cargo nextest run --cargo-quiet "${BUILD[@]}" --profile "$PROFILE" "$@"
    exit
fi

# The harness's channel looks like a race, which is suppressed by name: to look the name up takes a
# fifth of a second of a processor, in each process. So the unit tests and the models, which are many
# and short, share a process each. There they run one after the other, since what two of them might
# use first together stands behind a standard lock. The rest has a process for each test.
MODELS_AND_UNITS=(--lib --test all)
programs=("${PROGRAMS[@]/#/--test=}")
cargo test --quiet "${BUILD[@]}" "${MODELS_AND_UNITS[@]}" "${programs[@]}" --no-run
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
# What is skipped is what the profile leaves out.
cargo test --quiet --no-fail-fast "${BUILD[@]}" "${MODELS_AND_UNITS[@]}" -- --test-threads=1 \
    --skip time:: --skip a_turn_looks_at_an_entry_twice >"$log" 2>&1 &
verdict=0
cargo nextest run --cargo-quiet "${BUILD[@]}" --profile "$PROFILE" \
    "${programs[@]}" || verdict=$?
wait $! || verdict=$?
cat "$log"
exit "$verdict"
