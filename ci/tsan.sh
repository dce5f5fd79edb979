#!/usr/bin/env bash
# The tests and the models' bodies under ThreadSanitizer: accesses to plain memory that nothing
# orders. What it cannot see into, and why, is in tsan.supp. Arguments go to nextest.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# What has one thread at a time and no reaper's: no two could race there. And what runs on executors
# of others, or waits for another thread's first use of something: those locks are the standard
# library's, which ThreadSanitizer does not see through.
LEFT_OUT=(alloc backoff citizens corpus dispatch_tokio engine_oracle errands errors future_alloc
    future_ends future_executors future_global future_hyper future_interval future_panics future_tasks
    fork golden_placement golden_trace keyed keyed_oracle late_turns local_both local_hashed local_memory
    local_oracle local_wheel order periodic periodic_oracle purgatory purgatory_keys purgatory_oracle
    purgatory_panics saturation segments shard_clocks size slack tables tidy tracing)

need_nextest
need_symbolizer
# The sanitizers work on the stable compiler; only their switches are not stable. The standard
# library is not instrumented, which the second flag permits; `tsan` puts a lock that can be seen
# through in the place of the standard one.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg tsan"
export CARGO_TARGET_DIR=target/tsan
export CARGO_PROFILE_DEV_DEBUG=line-tables-only
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp"

build_planted
for bug in plain-access relaxed-publication two-owners; do
    finds "$bug" "WARNING: ThreadSanitizer: data race"
done

tests=("$@")
if [ $# = 0 ]; then
    mapfile -t tests < <(tests_without "${LEFT_OUT[@]}")
    for models in loom-tests/tests/*.rs; do
        tests+=(--test "$(basename "$models" .rs)")
    done
fi
# A test runs it, and would build it as a build for no other target than ours.
cargo build --quiet --locked --all-features --target "$(host)" --example service
cargo nextest run --cargo-quiet --locked --package tickless --package loom-tests \
    --all-features --target "$(host)" --profile "tsan${LONG:+-long}" "${tests[@]}"
