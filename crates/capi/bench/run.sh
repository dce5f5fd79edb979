#!/usr/bin/env bash
# Measures tickless from C beside other timers, and beside itself from Rust: crates/capi/bench/run.sh
# [ROUNDS]. All take turns in each round; printed are the medians. Needs Debian's libuv1-dev and
# libevent-dev. With --quick, everything runs once in small sizes: that it runs is all that it shows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

rounds=${1:-7} pairs=5000000 fires=300000
if [ "$rounds" = --quick ]; then
    rounds=1 pairs=20000 fires=2000
fi

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
# shellcheck source=build.sh
source crates/capi/bench/build.sh

for _ in $(seq "$rounds"); do
    for threads in 1 2; do
        for workload in cancel reset fire; do
            n=$pairs
            [ "$workload" = fire ] && n=$fires
            for contender in tickless libuv libevent timerfd heap; do
                "$out/bench" "$contender" "$workload" "$threads" "$n"
            done
            [ "$workload $threads" = "fire 2" ] || "$pair" "$workload" "$threads" "$n"
        done
    done
done >"$out/results"

# The medians of wall and CPU, each by itself.
median() {
    sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}
printf '%-9s %-8s %7s %12s %12s\n' contender workload threads 'wall ns' 'CPU ns'
cut -d' ' -f1-3 "$out/results" | sort -u -k2,2 -k3,3n -k1,1 | while read -r key; do
    wall=$(awk -v key="$key" '$1 " " $2 " " $3 == key { print $4 }' "$out/results" | median)
    cpu=$(awk -v key="$key" '$1 " " $2 " " $3 == key { print $5 }' "$out/results" | median)
    read -r contender workload threads <<<"$key"
    printf '%-9s %-8s %7s %12s %12s\n' "$contender" "$workload" "$threads" "$wall" "$cpu"
done
