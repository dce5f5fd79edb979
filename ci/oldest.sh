#!/usr/bin/env bash
# The oldest version of each dependency that Cargo.toml permits builds. The compiler of `rust-version` builds the
# published crates, and no dependency asks it for a newer one, on other systems neither: clippy knows what is newer in
# the standard library, but nothing else knows what is newer in the language.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CARGO_TARGET_DIR=$PWD/target/oldest

# In a copy, since it writes the lock file anew.
oldest=$CARGO_TARGET_DIR/oldest
rm -rf "$oldest"
mkdir -p "$oldest"
cp -R --parents Cargo.toml src docs README.md SECURITY.md crates/{core,sync,wheel}/{Cargo.toml,src,README.md} "$oldest"
sed -i -e '/^\[workspace\]$/,/^$/c [workspace]\nresolver = "3"\n' \
    -e '/^\[.*dev-dependencies\]$/,/^$/d' -e '/^\[\[\(bench\|example\|test\)\]\]$/,/^$/d' \
    "$oldest"/{,crates/{core,sync,wheel}/}Cargo.toml
RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions --manifest-path "$oldest/Cargo.toml"
cargo check --quiet --package tickless --all-features --manifest-path "$oldest/Cargo.toml"
echo "builds with the oldest dependencies: $(cargo tree --quiet --all-features --depth 1 \
    --prefix none --manifest-path "$oldest/Cargo.toml" | sed '1d;s/ v/ /' | paste -sd, | sed 's/,/, /g')"

version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if rustup toolchain install "$version" --profile minimal --no-self-update >/dev/null 2>&1; then
    for target in "$(host)" x86_64-pc-windows-msvc aarch64-apple-darwin x86_64-unknown-freebsd; do
        rustup target add --toolchain "$version" "$target" >/dev/null 2>&1 || fail "Rust $version lacks $target"
        cargo "+$version" check --quiet --locked --lib "${ENGINE[@]}" --all-features --target "$target"
    done
    echo "builds with Rust $version"
else
    leave_out "Rust $version, which rustup installs"
fi
