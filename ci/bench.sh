#!/usr/bin/env bash
# Every bench still runs: each of its measurements once, without measuring.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Speed does not matter here: what `test` has built will do.
export CARGO_PROFILE_DEV_DEBUG=false
for bench in schedule cancel reset expire wheel inbox purgatory netty stats dispatch future heartbeat keyed; do
    [ -e "benches/$bench.rs" ] || fail "the bench $bench is missing"
done
cargo test --quiet --locked --package benches --benches

# And the ablations still fit the sources.
need_command python3 python3
benches/ablation.py --check
