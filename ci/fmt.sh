#!/usr/bin/env bash
# All code is laid out by rustfmt, and the lock files are current. (One that is out of date would be
# rewritten by the first plain `cargo` and go unnoticed.)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cargo fmt --all --check
for manifest in Cargo.toml fuzz/Cargo.toml ci/no_std/Cargo.toml crates/durable/bench/Cargo.toml ci/peers/Cargo.toml; do
    cargo fmt --check --manifest-path "$manifest"
    cargo metadata --locked --format-version 1 --manifest-path "$manifest" >/dev/null ||
        fail "the lock file beside $manifest is missing or out of date"
done
