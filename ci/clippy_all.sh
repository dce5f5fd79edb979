#!/usr/bin/env bash
# No warning in anything: the whole workspace with all features, the fuzz targets, and the same code as the
# model checkers, the sanitizers, the fuzz targets and a proof build it.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# lint FLAGS ARGUMENT..
lint() {
    RUSTFLAGS=$1 CARGO_TARGET_DIR=target/clippy-all cargo clippy --locked --all-targets "${@:2}" -- -D warnings ||
        fail "warnings: $*"
}

lint "" --workspace --all-features
# The libraries without a feature, and with each alone. (ci/servers.sh has the stores on servers, whose clients are large.)
need_cargo_tool cargo-hack 0.6.46
CARGO_TARGET_DIR=target/clippy-all cargo hack clippy --locked --each-feature --skip postgres,nats --no-deps --lib \
    --package tickless --package tickless-core --package tickless-durable -- -D warnings
# So that pairs of features have nothing to show.
! grep -rnE 'cfg.*all\(.*feature *=.*feature *=' src crates/core/src || fail "code that depends on two features at once"
# Each crate by itself, with what it asks for and nothing that another one does.
for crate in "${CRATES[@]}" tickless-{durable,c,demo} race-tests test-support loom-tests; do
    lint "" --package "$crate"
done
# Nothing is linked here, so libFuzzer need not be built, which comes as C++.
CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a lint "" --manifest-path fuzz/Cargo.toml
lint "" --manifest-path ci/no_std/Cargo.toml --bins
lint "" --manifest-path crates/durable/bench/Cargo.toml
lint "" --manifest-path ci/peers/Cargo.toml
lint "--cfg loom --cfg crossbeam_loom" --package loom-tests
lint "--cfg shuttle" --package loom-tests
lint "--cfg asan" "${ENGINE[@]}"
lint "--cfg tsan" "${ENGINE[@]}"
lint "--cfg elsewhere" --package tickless --package tickless-core --package tickless-inspect
lint "--cfg coherence" --package coherence --package coherence-machine
