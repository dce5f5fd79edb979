#!/usr/bin/env bash
# No warning, from the compiler or from clippy, in anything that is built. The stages that build the crates and
# their tests, benches and examples, the models and the fuzz targets lint what they build (lint_what_is_built in
# ci/lib.sh). First this shows that they would notice; then it looks at what they build with other compilers, or
# not at all. LONG=1 looks at everything at once, also at the tests without features, and builds nothing.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

(
    lint_what_is_built
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    if said=$(clippy-driver "$(command -v rustc)" --edition 2024 --crate-type lib --emit metadata --out-dir "$out" - 2>&1 <<-'EOF'
	pub fn has_none(list: &[u8]) -> bool {
	    list.len() == 0
	}
	EOF
    ); then
        fail "a warning of clippy goes unnoticed"
    fi
    grep -q "clippy::len.zero" <<<"$said" || fail "clippy failed for another reason: $said"
)

if [ -z "${LONG:-}" ]; then
    cargo clippy --quiet --locked --package canary --package instructions --all-targets -- -D warnings
    exit
fi

# The features are those of the two crates.
cargo clippy --quiet --locked --package tickless --package tickless-wheel --all-targets -- -D warnings
cargo clippy --quiet --locked --workspace --all-targets --all-features -- -D warnings
# Nothing is linked here, so libFuzzer need not be built, which comes as C++.
CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a \
    cargo clippy --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir target/clippy-fuzz -- -D warnings
RUSTFLAGS="--cfg loom --cfg crossbeam_loom" CARGO_TARGET_DIR=target/clippy-loom \
    cargo clippy --quiet --locked --package loom-tests --all-targets -- -D warnings
RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/clippy-shuttle \
    cargo clippy --quiet --locked --package loom-tests --all-targets -- -D warnings
RUSTFLAGS="--cfg coherence" CARGO_TARGET_DIR=target/clippy-coherence \
    cargo clippy --quiet --locked --package coherence --package coherence-machine --all-targets -- -D warnings
RUSTFLAGS="--cfg events --cfg coherence" CARGO_TARGET_DIR=target/events \
    cargo clippy --quiet --locked --package simulation --all-targets -- -D warnings
