#!/usr/bin/env bash
# The wheel works without the standard library: a program that does not have it (ci/no_std/) links
# and runs. And this would be noticed: with a crate that does use it, the program does not compile.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CARGO_TARGET_DIR=$PWD/target/no_std

cargo run --locked --manifest-path ci/no_std/Cargo.toml
cargo run --locked --release --manifest-path ci/no_std/Cargo.toml
echo "the wheels run without the standard library"

refused panic_impl cargo build --locked --manifest-path ci/no_std/Cargo.toml --features std
echo "with the standard library, they do not"
