#!/usr/bin/env bash
# The tests that look at real time, one after the other, built as the other tests are. The system
# may spoil such a test, so a failed one is repeated up to two more times, each alone. One that passes only then
# is named as flaky, and what was flaky in the last runs is kept in `.flaky`. Nothing else is ever repeated.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

with_lints
need_nextest
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo nextest run --locked "${TOGETHER[@]}" --profile realtime --test realtime --test wakes --color never 2>&1 | tee "$log" || failed=yes

mapfile -t flaky < <(sed -nE 's/^ *FLAKY [0-9/]+ \[[^]]*\] (\([^)]*\) )?//p' "$log" | sort -u)
echo "$(date -I) $(git rev-parse --short HEAD 2>/dev/null || echo -) $(IFS=, && echo "${flaky[*]}")" >>.flaky
for name in "${flaky[@]}"; do
    echo "flaky: $name"
    echo "flaky: in $(tail -n 20 .flaky | grep -cF "$name") of the last $(tail -n 20 .flaky | wc -l) runs; rewrite it after the second"
done
[ -z "${failed:-}" ]
