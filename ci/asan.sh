#!/usr/bin/env bash
# Under AddressSanitizer: use after free, out of bounds, double free; and at the end of each process,
# under LeakSanitizer, memory that nobody can reach. In the gate the engine's tests with several threads;
# with LONG=1 all of the crates. Arguments choose other tests, as for `cargo test`.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

sanitize asan 0.2
# With a block for each entry, it sees what is done to an entry that is free.
export RUSTFLAGS="-Zsanitizer=address --cfg asan"
export ASAN_OPTIONS="detect_leaks=1 detect_stack_use_after_return=1"

tests=(--package canary --package race-tests --test races)
[ -z "${LONG:-}" ] || tests=(--package canary --package race-tests --package tickless --package tickless-sync --package tickless-core
    --package tickless-wheel --package tickless-keyed --package tickless-purgatory --package tickless-netty
    --package tickless-inspect --package tickless-demo --tests)
finds "ERROR: AddressSanitizer: heap-use-after-free" use-after-free
finds "ERROR: AddressSanitizer: heap-buffer-overflow" out-of-bounds
finds "ERROR: AddressSanitizer: attempting double-free" double-free
finds "ERROR: LeakSanitizer: detected memory leaks" leak circle
[ $# = 0 ] || tests=("$@")
some_tests cargo test "${SANITIZED[@]}" "${tests[@]}"
