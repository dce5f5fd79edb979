#!/usr/bin/env bash
# Every fuzz target for a while, from the corpus on. What it finds anew stays under target/: the
# corpus in the repository is chosen by hand.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

SECONDS_EACH="${SECONDS_EACH:-15}"

need_fuzz
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR=$PWD/target/fuzz
targets=$(cargo fuzz list)
for target in builder engine_ops geometry shard_clocks wheel_vs_oracle; do
    grep -qx "$target" <<<"$targets" || fail "the target $target is missing"
done
cargo fuzz build
for target in $targets; do
    echo "== $target"
    found=$CARGO_TARGET_DIR/found/$target
    mkdir -p "$found"
    corpus=("$found")
    [ -d "fuzz/corpus/$target" ] && corpus+=("fuzz/corpus/$target")
    # Leaks are looked for at the end: what the epoch still keeps looks like one in between.
    cargo fuzz run "$target" "${corpus[@]}" -- -detect_leaks=0 \
        -max_total_time="$SECONDS_EACH" -max_len=1024 -verbosity=0 -print_final_stats=1
done
