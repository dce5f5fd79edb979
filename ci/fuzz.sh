#!/usr/bin/env bash
# Every fuzz target for a while, from the corpus on. What it finds anew stays under target/: the
# corpus in the repository is chosen by hand.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

SECONDS_EACH="${SECONDS_EACH:-3}"

# libFuzzer comes as C++.
need_command c++ g++
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR=$PWD/target/fuzz
# The switches of `cargo fuzz`, which works here, too, and takes as long to build as half of the targets: code
# reports its branches and comparisons to libFuzzer, and AddressSanitizer looks on. With `events`, the targets
# of the engine tell in the end which of its rare branches they reached.
export RUSTFLAGS="--cfg fuzzing --cfg events -C debug-assertions -C codegen-units=1 -Z sanitizer=address"
RUSTFLAGS+=" -C passes=sancov-module"
for option in sanitizer-coverage-level=4 sanitizer-coverage-inline-8bit-counters sanitizer-coverage-pc-table \
    sanitizer-coverage-trace-compares sanitizer-coverage-stack-depth simplifycfg-branch-fold-threshold=0; do
    RUSTFLAGS+=" -C llvm-args=-$option"
done
export ASAN_OPTIONS=detect_odr_violation=0
if [ -z "${LONG:-}" ]; then
    # What runs for seconds takes longer to build than to run. Reports name functions without lines.
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
    no_line_tables
fi
lint_what_is_built
cargo build --quiet --locked --release --target "$(host)" --manifest-path fuzz/Cargo.toml --bins
targets=$(sed -n '/^\[\[bin\]\]$/{n;s/^name = "\(.*\)"$/\1/p}' fuzz/Cargo.toml)
for target in builder engine geometry shard_clocks wheel_vs_oracle; do
    grep -qx "$target" <<<"$targets" || fail "the target $target is missing"
done

run() {
    local target=$1 found=$CARGO_TARGET_DIR/found/$1
    mkdir -p "$found"
    local corpus=("$found")
    [ -d "fuzz/corpus/$target" ] && corpus+=("fuzz/corpus/$target")
    # Leaks are looked for at the end: what the epoch still keeps looks like one in between. Inputs
    # may be long from the start: a short run would end before the fuzzer lets them grow. An input that
    # fails stays beside those that were found.
    "$CARGO_TARGET_DIR/$(host)/release/$target" "${corpus[@]}" -artifact_prefix="$found/" -detect_leaks=0 \
        -len_control=0 -max_total_time="$SECONDS_EACH" -max_len=1024 -verbosity=0 -print_final_stats=1
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
