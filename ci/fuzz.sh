#!/usr/bin/env bash
# Every fuzz target for SECONDS_EACH under AddressSanitizer, from the corpus on, which every `cargo test`
# replays. What it finds anew stays under target/: CONTRIBUTING.md says which inputs are kept.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# libFuzzer comes as C++.
need_command c++ g++
need_cargo_tool cargo-fuzz 0.13.2
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$PWD/target/fuzz ASAN_OPTIONS=detect_odr_violation=0
cargo fetch --locked --manifest-path fuzz/Cargo.toml
mapfile -t targets < <(cargo fuzz list)
[ "${#targets[@]}" -ge 5 ] || fail "targets are missing: there are only ${targets[*]}"
for target in "${targets[@]}"; do
    found=$CARGO_TARGET_DIR/found/$target corpus=fuzz/corpus/$target
    mkdir -p "$found"
    [ -d "$corpus" ] || corpus=
    echo "== $target"
    # Leaks are looked for at the end: what the epoch still keeps looks like one in between. Inputs
    # may be long from the start: a short run would end before the fuzzer lets them grow. An input
    # that fails stays beside those that were found.
    cargo fuzz run "$target" "$found" $corpus -- -artifact_prefix="$found/" -detect_leaks=0 -len_control=0 \
        -max_total_time="${SECONDS_EACH:-60}" -max_len=1024 -verbosity=0 -print_final_stats=1 2>&1 ||
        fail "$target found something"
done
