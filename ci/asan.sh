#!/usr/bin/env bash
# The tests under AddressSanitizer: use after free, out of bounds, double free; and at the end of
# each process, under LeakSanitizer, memory that nobody can reach. Without what computes, prints or
# counts and goes nowhere that others do not go, and without the oracles: `fuzz` compares with those
# of the engine and the wheels under AddressSanitizer, and what the others compare is safe code.
#
# LONG=1 runs the demo and the clients of others as well. Else the crates that only those need are not even
# built. Arguments go to nextest, and everything is built for them.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

LEFT_OUT=(alloc demo_audit demo_page future_alloc memory oracles purgatory_size tidy)
# The longest of those that compute: LONG=1 alone runs them here. Where they go, others go, too.
COMPUTE=(a_turn_looks_at_an_entry_twice one_turn_a_tick_before a_table_has_at_most_four_slots
    a_fixed_rate_does_not_drift_over_a_hundred a_turn_that_is_a_minute_late late_turns_that_are_bounded
    the_same_program_sees_the_same_times what_becomes_due_while_a_crowd_fires)

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

BUILD=(--locked "${OWN_LINES[@]}" --target "$(host)" --package tickless --package tickless-wheel)
if [ $# -gt 0 ] || [ -n "${LONG:-}" ]; then
    BUILD+=(--package tickless-demo --all-features)
else
    be_quick
fi

build_canary "${BUILD[@]}"
finds use-after-free "ERROR: AddressSanitizer: heap-use-after-free"
finds out-of-bounds "ERROR: AddressSanitizer: heap-buffer-overflow"
finds double-free "ERROR: AddressSanitizer: attempting double-free"
finds leak "ERROR: LeakSanitizer: detected memory leaks"
finds circle "ERROR: LeakSanitizer: detected memory leaks"

PROFILE="sanitizer${LONG:+-long}"
if [ $# -gt 0 ] || [ -n "${LONG:-}" ]; then
    tests=("$@")
    if [ $# = 0 ]; then
        options=$(programs_without "${LEFT_OUT[@]}")
        mapfile -t tests <<<"$options"
        tests+=(--lib)
    fi
    cargo nextest run --cargo-quiet "${BUILD[@]}" --profile "$PROFILE" "${tests[@]}"
    exit
fi

# A process begins and ends, with a search for leaks, in a fiftieth of a second. So the tests that are
# many and short share one for each program; the others have one each.
SHARED=(--lib --test suite --test wheels)
options=$(programs_without "${LEFT_OUT[@]}" clients suite wheels demo_program)
mapfile -t programs <<<"$options"
cargo test --quiet "${BUILD[@]}" "${SHARED[@]}" "${programs[@]}" --no-run
verdict=0
cargo test --quiet --no-fail-fast "${BUILD[@]}" "${SHARED[@]}" -- --test-threads=3 \
    "${COMPUTE[@]/#/--skip=}" || verdict=$?
cargo nextest run --cargo-quiet "${BUILD[@]}" --profile "$PROFILE" "${programs[@]}" \
    -E "not test(/$(IFS='|' && echo "${COMPUTE[*]}")/)" || verdict=$?
exit "$verdict"
