#!/usr/bin/env bash
# The measuring bench still runs: its tests have every workload with every contender at a tiny scale.
# And as its users run it: figures can be drawn from what comes out. It measures nothing here.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Seconds after which the bench hangs.
LIMIT=240

# Not optimized: most of it was built for the tests.
export CARGO_PROFILE_DEV_DEBUG=false
cargo test --quiet --locked --package rivals
cargo build --quiet --locked --package rivals
results="$(mktemp -d)"
trap 'rm -rf "$results"' EXIT

rivals() {
    echo "== rivals $*"
    timeout "$LIMIT" target/debug/rivals "$@" </dev/null || fail "rivals $* ended with $?"
}

rivals --list
# What the figures show; the tests have just had every workload.
rivals --workload cancel-heavy,reset,scale,fire-all --threads 1,2 --runs 1 --scale 0.001 \
    --json "$results/results.jsonl"
rivals --plots --json "$results/results.jsonl" --out "$results"
for figure in cancel-heavy-wall reset-cpu scale lateness-1 cascade-second-2; do
    [ -s "$results/$figure.svg" ] || fail "the figure $figure is missing"
done

echo "== the timers of Java"
timeout "$LIMIT" benches/rivals/java/run.sh --threads 1,2 --runs 1 --scale 0.001
