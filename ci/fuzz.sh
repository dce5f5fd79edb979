#!/usr/bin/env bash
# Every fuzz target for SECONDS_EACH under AddressSanitizer, from the corpus on, which every `cargo test`
# replays. What it finds anew stays under target/: CONTRIBUTING.md says which inputs are kept.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# libFuzzer comes as C++.
need_command c++ g++
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$PWD/target/fuzz ASAN_OPTIONS=detect_odr_violation=0
# The switches of `cargo fuzz`, which works here, too: code reports its branches and comparisons to
# libFuzzer.
export RUSTFLAGS="--cfg fuzzing -C debug-assertions"
RUSTFLAGS+=" -C passes=sancov-module"
for option in sanitizer-coverage-level=4 sanitizer-coverage-inline-8bit-counters sanitizer-coverage-pc-table \
    sanitizer-coverage-trace-compares sanitizer-coverage-stack-depth simplifycfg-branch-fold-threshold=0; do
    RUSTFLAGS+=" -C llvm-args=-$option"
done
RUSTFLAGS+=" -Z sanitizer=address"
cargo build --locked --release --target "$(host)" --manifest-path fuzz/Cargo.toml --bins
mapfile -t targets < <(sed -n '/^\[\[bin\]\]$/{n;s/^name = "\(.*\)"$/\1/p}' fuzz/Cargo.toml)
[ "${#targets[@]}" -ge 5 ] || fail "targets are missing: there are only ${targets[*]}"

fuzz() {
    local found=$CARGO_TARGET_DIR/found/$1 corpus=fuzz/corpus/$1
    mkdir -p "$found"
    [ -d "$corpus" ] || corpus=
    echo "== $1"
    # Leaks are looked for at the end: what the epoch still keeps looks like one in between. Inputs
    # may be long from the start: a short run would end before the fuzzer lets them grow. An input
    # that fails stays beside those that were found.
    "$CARGO_TARGET_DIR/$(host)/release/$1" "$found" $corpus -artifact_prefix="$found/" -detect_leaks=0 \
        -len_control=0 -max_total_time="${SECONDS_EACH:-60}" -max_len=1024 -verbosity=0 -print_final_stats=1 2>&1
}
for target in "${targets[@]}"; do
    fuzz "$target" || fail "$target found something"
done
