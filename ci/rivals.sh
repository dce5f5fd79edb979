#!/usr/bin/env bash
# What measures still runs: its tests have every workload with every contender at a tiny scale, tokio's
# alternative timer among them, as `benches/measure.sh` builds it.
# And as its users run it: tables and plots can be drawn from what comes out. It measures nothing here.
# A test checks PERF.md against what was kept of its measurements.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Seconds after which the bench hangs.
LIMIT=1200

# Smaller still than by default: what it counts has to be right for few operations, too.
export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.3}"
export RUSTFLAGS='--cfg tokio_unstable'
# This builds the programs as well.
some_tests cargo test --locked --package rivals --package http-bench --package async-scale
results="$(mktemp -d)"
trap 'rm -rf "$results"' EXIT

rivals() {
    echo "== rivals $*"
    timeout "$LIMIT" target/debug/rivals "$@" </dev/null || fail "rivals $* ended with $?"
}

rivals --list
rivals --workload handoff --runs 1 --scale 0.001 --json "$results/results.jsonl"
[ -s "$results/results.jsonl" ] || fail "nothing was recorded"
# What is drawn; the tests have just had every workload.
printf '<!-- table: cancel-heavy -->\n<!-- end -->\n' >"$results/PERF.md"
rivals --perf --only cancel-heavy,fire-all,scale,async-timeout --runs 1 --scale 0.001 --json "$results/perf.json" \
    --out "$results" --documents "$results/PERF.md"
for plot in cancel-heavy-cpu scale lateness cascade-second; do
    [ -s "$results/$plot.svg" ] || fail "the plot $plot is missing"
done
grep -q '| \*\*tickless\*\* |' "$results/PERF.md" || fail "no table was drawn"

echo "== the timers of Java"
timeout "$LIMIT" benches/rivals/java/run.sh --threads 1,2 --runs 1 --scale 0.001
