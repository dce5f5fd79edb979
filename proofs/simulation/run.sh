#!/usr/bin/env bash
# The simulation: calls in the middle of other calls, and histories from seeds, compared with naive
# models; then the events that both reached. Unless told otherwise 3,000 histories, which take 9 s;
# with LONG=1 each order of two calls, and histories for an hour, from another seed each time.
#   run.sh [--seconds N | --minutes N | --count N] [--from SEED] [--jobs N]   search
#   run.sh --seed SEED [--keep STEP,..] [--tell]                               one history again
#   run.sh --pairs N                  each call in the middle of each other one, at N accesses or (0) each
source "$(dirname "${BASH_SOURCE[0]}")/../../ci/lib.sh"

# `coherence`: the engine tells of its accesses to memory, for the directed tests
# and the pairs of calls.
export RUSTFLAGS="--cfg events --cfg coherence"
export CARGO_TARGET_DIR=$PWD/target/events
build=(--locked --profile simulation --package simulation)
cargo build "${build[@]}"
simulation=$CARGO_TARGET_DIR/simulation/simulation

case " $* " in
*" --seed "* | *" --pairs "*) exec "$simulation" "$@" ;;
*" --seconds "* | *" --minutes "* | *" --count "*) ;;
*) if [ -n "${LONG:-}" ]; then set -- --minutes 60 --from "$RANDOM" "$@"; else set -- --count 3000 "$@"; fi ;;
esac
# And the faults that it is tried with still fit the sources.
proofs/simulation/faults.py --check
directed=$CARGO_TARGET_DIR/directed
"$simulation" --directed >"$directed" || fail "a directed test failed"
"$simulation" --pairs "$([ -n "${LONG:-}" ] && echo 0 || echo 4)" || fail "two calls do not agree"
"$simulation" --events "$directed" "$@"
