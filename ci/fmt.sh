#!/usr/bin/env bash
# All code is laid out by rustfmt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cargo fmt --all --check
cargo fmt --manifest-path fuzz/Cargo.toml --check
cargo fmt --manifest-path durable/bench/Cargo.toml --check
cargo fmt --manifest-path ci/no_std/Cargo.toml --check
