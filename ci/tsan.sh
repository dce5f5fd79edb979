#!/usr/bin/env bash
# Under ThreadSanitizer: accesses to plain memory that nothing orders. In the gate the engine's tests with
# several threads; with LONG=1 the models on threads of the system, and others that race as well. What
# it cannot see into, and why, is in tsan.supp. Arguments choose other tests, as for `cargo test`.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

with_lints
sanitize 0.1
# All that is built has it, in a folder of its own; the triple is named, so that build scripts and macros, which run
# inside the compiler, stay as they are. The standard library is not instrumented, which the second flag
# permits; `tsan` puts a lock that can be seen through in the place of the standard one.
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$PWD/target/tsan CARGO_PROFILE_DEV_STRIP=none
built=$CARGO_TARGET_DIR/$(host)/debug
export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg tsan"
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp"

options=(--locked --target "$(host)")
tests=("${options[@]}" --package canary --package race-tests --test races)
# (Programs alone: rustdoc knows nothing of the flags.)
[ -z "${LONG:-}" ] || tests+=("${ENGINE[@]}" --package loom-tests --lib
    --test={all,storms,at_random,bounded,apis,netty,inspect})
finds "WARNING: ThreadSanitizer: data race" plain-access relaxed-publication two-owners
[ $# = 0 ] || tests=("${options[@]}" "$@")
# One test at a time: what two use first together stands behind a standard lock, which is not seen through.
some_tests cargo test "${tests[@]}" -- --test-threads=1
