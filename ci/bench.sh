#!/usr/bin/env bash
# Every bench still runs: each of its measurements once, without measuring.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Speed does not matter here, and building for it takes minutes.
export CARGO_PROFILE_BENCH_LTO=off
export CARGO_PROFILE_BENCH_CODEGEN_UNITS=16
export CARGO_PROFILE_BENCH_DEBUG=false
for bench in schedule cancel reset expire wheel inbox purgatory hashed stats dispatch future heartbeat keyed; do
    [ -e "benches/$bench.rs" ] || fail "the bench $bench is missing"
done
cargo bench --quiet --locked --all-features -- --test

# And the ablations still fit the sources.
need_command python3 python3
benches/ablation.py --check
