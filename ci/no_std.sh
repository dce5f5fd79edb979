#!/usr/bin/env bash
# The wheel works without the standard library: a program that does not have it (ci/no_std/) links
# and runs. And this would be noticed: with a wheel that does use it, the program does not compile.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CARGO_TARGET_DIR=$PWD/target/no_std

cargo run --locked --manifest-path ci/no_std/Cargo.toml
cargo run --locked --release --manifest-path ci/no_std/Cargo.toml
echo "the wheels run without the standard library"

# In a copy, with the same names for everything.
copy=$CARGO_TARGET_DIR/copy
rm -rf "$copy"
mkdir -p "$copy"
cp -R --parents ci/no_std wheel/{Cargo.toml,src,README.md,tests} "$copy"
{
    printf '[workspace]\nmembers = ["wheel"]\nresolver = "3"\n\n'
    sed -n '/^\[workspace\.package\]$/,/^\[package\]$/{/^\[package\]$/!p}' Cargo.toml
} >"$copy/Cargo.toml"
build_copy() {
    cargo build --offline --manifest-path "$copy/ci/no_std/Cargo.toml" 2>&1
}
report=$(build_copy) || fail "the copy does not build as it is: $report"
echo 'extern crate std;' >>"$copy/wheel/src/lib.rs"
if report=$(build_copy); then
    fail "a wheel with the standard library was not noticed"
fi
grep -q "panic_impl" <<<"$report" || fail "it failed for another reason: $report"
echo "with the standard library, they do not"
