#!/usr/bin/env bash
# Every fuzz target for a while, from the corpus on. What it finds anew stays under target/: the
# corpus in the repository is chosen by hand.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

SECONDS_EACH="${SECONDS_EACH:-3}"

need_fuzz
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR=$PWD/target/fuzz
# The targets of the engine tell in the end which of its rare branches they have reached.
export RUSTFLAGS="--cfg events"
lint_what_is_built
targets=$(cargo fuzz list)
for target in builder engine_geometry engine_ops geometry shard_clocks wheel_vs_oracle; do
    grep -qx "$target" <<<"$targets" || fail "the target $target is missing"
done
cargo fuzz build

run() {
    local target=$1 found=$CARGO_TARGET_DIR/found/$1
    mkdir -p "$found"
    local corpus=("$found")
    [ -d "fuzz/corpus/$target" ] && corpus+=("fuzz/corpus/$target")
    # Its inputs are a geometry and then those of the other: as a beginning, these are long enough.
    [ "$target" = engine_geometry ] && corpus+=(fuzz/corpus/engine_ops)
    # Leaks are looked for at the end: what the epoch still keeps looks like one in between. Inputs
    # may be long from the start: a short run would end before the fuzzer lets them grow.
    cargo fuzz run "$target" "${corpus[@]}" -- -detect_leaks=0 -len_control=0 \
        -max_total_time="$SECONDS_EACH" -max_len=1024 -verbosity=0 -print_final_stats=1
}

# Two at a time: most of them have one thread.
mkdir -p "$CARGO_TARGET_DIR/log"
failed=0
set -- $targets
while [ $# -gt 0 ]; do
    pair=("${@:1:2}")
    shift "${#pair[@]}"
    jobs=()
    for target in "${pair[@]}"; do
        run "$target" >"$CARGO_TARGET_DIR/log/$target" 2>&1 &
        jobs+=($!)
    done
    for i in "${!pair[@]}"; do
        wait "${jobs[i]}" || failed=1
        echo "== ${pair[i]}"
        cat "$CARGO_TARGET_DIR/log/${pair[i]}"
    done
done
[ "$failed" = 0 ] || fail "a target found something"
