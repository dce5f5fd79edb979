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
export CARGO_PROFILE_DEV_DEBUG=line-tables-only
# A small part of what they do without: each step costs many times as much.
export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.15}"
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp"

build_canary
for bug in plain-access relaxed-publication two-owners; do
    finds "$bug" "WARNING: ThreadSanitizer: data race"
done

tests=("$@")
if [ $# = 0 ]; then
    tests=(--lib "${PROGRAMS[@]/#/--test=}")
    for models in loom-tests/tests/*.rs; do
        tests+=(--test "$(basename "$models" .rs)")
    done
fi
cargo nextest run --cargo-quiet --locked "${OWN_LINES[@]}" --package tickless --package loom-tests \
    --all-features --target "$(host)" --profile "tsan${LONG:+-long}" "${tests[@]}"
