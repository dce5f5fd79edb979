#!/usr/bin/env bash
# The tests under AddressSanitizer: use after free, out of bounds, double free; and at the end of
# each, under LeakSanitizer, memory that nobody can reach. Without what computes, prints or counts and
# goes nowhere that others do not go, and without the oracles: `fuzz` compares with those of the engine
# and the wheels under AddressSanitizer, and what the others compare is safe code. Arguments go to
# nextest.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

LEFT_OUT=(alloc backoff citizens corpus demo_audit demo_page engine_oracle errors future_alloc
    golden_placement golden_trace netty_oracle keyed_oracle memory oracle periodic_oracle purgatory_oracle
    purgatory_size shard_clocks tables tidy)

need_nextest
need_symbolizer
# The sanitizers work on the stable compiler; only their switches are not stable.
export RUSTC_BOOTSTRAP=1
# With a block for each entry, it sees what is done to an entry that is free.
export RUSTFLAGS="-Zsanitizer=address --cfg asan"
export CARGO_TARGET_DIR=target/asan
lines_for "$@"
# A quarter of what they do without: each step costs several times as much.
export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.25}"
export ASAN_OPTIONS="detect_leaks=1 detect_stack_use_after_return=1"

build_canary
finds use-after-free "ERROR: AddressSanitizer: heap-use-after-free"
finds out-of-bounds "ERROR: AddressSanitizer: heap-buffer-overflow"
finds double-free "ERROR: AddressSanitizer: attempting double-free"
finds leak "ERROR: LeakSanitizer: detected memory leaks"
finds circle "ERROR: LeakSanitizer: detected memory leaks"

tests=("$@")
[ $# -gt 0 ] || mapfile -t tests < <(tests_without "${LEFT_OUT[@]}")
cargo nextest run --cargo-quiet --locked "${OWN_LINES[@]}" --all-features --target "$(host)" \
    --profile "sanitizer${LONG:+-long}" "${tests[@]}"
