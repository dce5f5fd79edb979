#!/usr/bin/env bash
# The proofs of proofs/, in sizes that take seconds; with LONG=1 in those that take hours. Arguments
# choose parts. Each part has one command of its own, proofs/PART/run.sh, and says what it skips.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

parts=("$@")
[ $# -gt 0 ] || parts=(specs arithmetic histories simulation coherence)

failed=()
for part in "${parts[@]}"; do
    [ -x "proofs/$part/run.sh" ] || fail "there is no proofs/$part/run.sh"
    printf '\n== %s\n' "$part"
    begun=$SECONDS
    "proofs/$part/run.sh" || failed+=("$part")
    echo "== $part, $((SECONDS - begun)) s"
done
[ "${#failed[@]}" = 0 ] || fail "failed: ${failed[*]}"
