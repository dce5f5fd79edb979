#!/usr/bin/env bash
# The tests once more, optimized: that is what users run, and what makes races meet. Without what has
# one thread and a clock that is moved by hand, scenario by scenario: it runs in `test`, and the
# oracles run the same code here. Arguments go to nextest.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

LEFT_OUT=(backoff citizens errors future_interval future_sleep golden_placement golden_trace hashed
    hashed_faults keyed local_both local_hashed local_wheel metrics periodic purgatory retry
    service_example stats tables tidy tracing)

need_nextest
no_line_tables
tests=("$@")
[ $# -gt 0 ] || mapfile -t tests < <(tests_without "${LEFT_OUT[@]}")
cargo nextest run --cargo-quiet --locked --all-features --release --profile "ci${LONG:+-long}" \
    "${tests[@]}"
