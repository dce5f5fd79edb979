#!/usr/bin/env bash
# Measures timers of one loop: crates/capi/bench/loop.sh [ROUNDS]. tickless_wheel.h beside a hashed wheel as
# people write it, Rust's wheel behind functions for C, libev, and the engine with its threads. All take
# turns in each round; printed are the medians, in nanoseconds of CPU time per operation. Needs Debian's
# libev-dev. With --quick, everything runs once in small sizes: that it runs is all that it shows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

rounds=${1:-5} operations=3000000 many=10000000
if [ "$rounds" = --quick ]; then
    rounds=1 operations=20000 many=30000
fi

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
crates/capi/install.sh "$out/prefix" >/dev/null
cargo build --quiet --locked --release --package tickless-c --example wheel \
    --config 'profile.release.lto="fat"' --config 'profile.release.codegen-units=1' \
    --config 'profile.release.debug=false'
g++ -std=c++17 -O2 -Wall -Wextra -Werror -pthread "-I$out/prefix/include" crates/capi/bench/loop.cpp \
    "$out/prefix/lib/libtickless.a" "${CARGO_TARGET_DIR:-target}/release/examples/libwheel.a" \
    -lev -lm -ldl -o "$out/loop"

contenders="wheel hashed rust libev engine"
workloads="cancel-random cancel-constant reset-random reset-constant"
measure() {
    echo "$1 $2 $3 $("$out/loop" "$1" "$2" "$3" "$operations")"
}
for _ in $(seq "$rounds"); do
    for workload in $workloads; do
        for pending in 1000 20000 "$many"; do
            for contender in $contenders; do
                [ "$contender $pending" = "engine $many" ] || measure "$contender" "$workload" "$pending"
            done
        done
    done
    for contender in wheel hashed rust; do
        measure "$contender" fire 1000000
    done
done >"$out/results"

printf '%-16s %9s' workload pending
printf ' %8s' $contenders
echo
cut -d' ' -f2,3 "$out/results" | awk '!seen[$0]++' | while read -r workload pending; do
    printf '%-16s %9s' "$workload" "$pending"
    for contender in $contenders; do
        median=$(awk -v key="$contender $workload $pending" '$1 " " $2 " " $3 == key { print $4 }' \
            "$out/results" | sort -n | awk '{ all[NR] = $1 } END { print NR ? all[int((NR + 1) / 2)] : "-" }')
        printf ' %8s' "$median"
    done
    echo
done
