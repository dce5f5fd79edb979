#!/usr/bin/env bash
# Histories of real threads on the engine, checked for linearizability, and the planted faults that
# the check has to find. The environment sets how many histories there are (HISTORIES; 1000, or a
# million with LONG=1) and the first seed (SEED). From 10,000 histories on, the engine is built optimized. Arguments go to the
# tests: `run.sh handles` runs those whose name contains the word.
source "$(dirname "${BASH_SOURCE[0]}")/../../ci/lib.sh"

[ -z "${LONG:-}" ] || export HISTORIES="${HISTORIES:-1000000}"
profile=()
[ "${HISTORIES:-1000}" -lt 10000 ] || profile=(--release)
some_tests cargo test --locked "${profile[@]}" --package histories -- --nocapture "$@"
