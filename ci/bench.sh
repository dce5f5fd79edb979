#!/usr/bin/env bash
# Every bench still runs, and each group tells its throughput: those that `cargo bench -p benches` measures,
# and the studies once each. It judges no figure.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cargo test --locked --package benches --benches --features studies
report=$(mktemp)
trap 'rm -f "$report"' EXIT
CARGO_TERM_QUIET=false cargo bench --locked --package benches 2>&1 | tee "$report"
measured=$(grep -c 'time: ' "$report")
[ "$measured" -gt 20 ] || fail "only $measured measurements"
[ "$(grep -c 'thrpt: ' "$report")" -ge "$measured" ] || fail "a measurement tells no throughput"
# And the ablations, and the faults that are planted for the gate, still fit the sources.
benches/ablation.py --check
ci/planted.py --check
