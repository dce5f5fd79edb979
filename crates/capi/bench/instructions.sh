#!/usr/bin/env bash
# Counts the instructions of a pair (cancel and schedule) and of a reset, from C and from Rust, with
# callgrind: crates/capi/bench/instructions.sh. Unlike times, they are the same on a busy machine. Both
# programs are counted with two sizes, and the difference is divided; it includes the loop around the
# calls, which is longer in the C++ program (about 60 of a pair's instructions) than in Rust (40).
# `shared` is the C program with the shared library, where thread-locals cost a call.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
# shellcheck source=build.sh
source crates/capi/bench/build.sh

# count PROGRAM [ARGUMENT..]: all instructions of a run.
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 >/dev/null |
        sed -n 's/.*Collected : //p'
}
# each NAME PROGRAM [ARGUMENT..]
each() {
    local name=$1 workload small large
    shift
    for workload in cancel reset; do
        small=$(count "$@" "$workload" 1 100000)
        large=$(count "$@" "$workload" 1 300000)
        # A tenth more of each size is for warming up.
        printf '%-10s %-8s %6.1f\n' "$name" "$workload" \
            "$(awk "BEGIN { print ($large - $small) / 220000 }")"
    done
}
export LD_LIBRARY_PATH=$out/prefix/lib
each C "$out/bench" tickless
each shared "$out/bench-shared" tickless
each Rust "$pair"
