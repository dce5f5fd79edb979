#!/usr/bin/env bash
# The oldest version of each dependency that Cargo.toml permits builds, and no dependency asks for a
# newer compiler than the crate does. The compiler of `rust-version` builds the published crates: clippy knows
# what is newer in the standard library, but nothing else knows what is newer in the language.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_command python3 python3
export CARGO_TARGET_DIR=$PWD/target/oldest
python3 - <<'EOF'
import json, subprocess, sys


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked", "--all-features"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


packages = json.loads(cargo("metadata", "--format-version", "1"))["packages"]
needs = {f"{it['name']} v{it['version']}": tuple(map(int, (it["rust_version"] or "0").split("."))) for it in packages}
targets = ["x86_64-unknown-linux-gnu", "x86_64-pc-windows-msvc", "aarch64-apple-darwin", "x86_64-unknown-freebsd"]
tree = cargo("tree", "--package", "tickless", "--package", "tickless-inspect", "--edges", "normal,build", "--prefix", "none",
             *(f"--target={target}" for target in targets))
built = {" ".join(line.split()[:2]) for line in tree.splitlines() if line}
[ours] = [needs[package] for package in built if package.startswith("tickless v")]
newer = [f"{package} needs Rust {needs[package]}" for package in built if needs[package] > ours]
print(f"{len(built) - 2} dependencies, all features on; ours is Rust {ours}", *newer, sep="\n")
sys.exit(bool(newer))
EOF

# In a copy, since it writes the lock file anew.
oldest=$CARGO_TARGET_DIR/oldest
rm -rf "$oldest"
mkdir -p "$oldest"
cp -R --parents Cargo.toml src docs README.md SECURITY.md crates/{core,sync,wheel}/{Cargo.toml,src,README.md} "$oldest"
sed -i -e '/^\[workspace\]$/,/^$/c [workspace]\nresolver = "3"\n' \
    -e '/^\[.*dev-dependencies\]$/,/^$/d' -e '/^\[\[\(bench\|example\|test\)\]\]$/,/^$/d' "$oldest"/{,crates/{core,sync,wheel}/}Cargo.toml
RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions --manifest-path "$oldest/Cargo.toml"
cargo check --quiet --package tickless --all-features --manifest-path "$oldest/Cargo.toml"
echo "builds with the oldest dependencies: $(cargo tree --quiet --all-features --depth 1 \
    --prefix none --manifest-path "$oldest/Cargo.toml" | sed '1d;s/ v/ /' | paste -sd, | sed 's/,/, /g')"

version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if rustup toolchain install "$version" --profile minimal --no-self-update >/dev/null 2>&1; then
    for options in --all-features "-p tickless-keyed -p tickless-purgatory -p tickless-netty -p tickless-inspect"; do
        # shellcheck disable=SC2086
        cargo "+$version" check --quiet --locked --lib -p tickless $options
    done
    echo "builds with Rust $version"
else
    leave_out "Rust $version, which rustup installs"
fi
