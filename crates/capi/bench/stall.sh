#!/usr/bin/env bash
# Measures the longest call of a wheel: crates/capi/bench/stall.sh [TIMERS [RUNS]]. With two limits and without,
# in C and in Rust. With --quick, everything runs once in small sizes: that it runs is all that it shows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

timers=${1:-1000000} runs=${2:-5}
[ "$timers" = --quick ] && timers=20000 runs=1

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
cargo build --quiet --locked --release --package tickless-c --example wheel \
    --config 'profile.release.lto="fat"' --config 'profile.release.codegen-units=1' \
    --config 'profile.release.debug=false'
gcc -std=c99 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -Werror -Icrates/capi/include crates/capi/bench/stall.c \
    "${CARGO_TARGET_DIR:-target}/release/examples/libwheel.a" -lm -ldl -pthread -o "$out/stall"
for contender in wheel rust; do
    for limit in 100 1000 none; do
        "$out/stall" "$contender" "$timers" "$limit" "$runs" | sed "s/^/$contender, limit $limit: /"
    done
done
