#!/usr/bin/env bash
# The oldest version of each dependency that Cargo.toml permits builds, and no dependency asks for a
# newer compiler than the crate does. (That the crate itself uses nothing newer of the standard library,
# clippy sees to, which knows the version from Cargo.toml.)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_command python3 python3
export CARGO_TARGET_DIR=$PWD/target/clippy
python3 - <<'EOF'
import json, subprocess, sys

command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"]
metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
[root] = [id for id, package in packages.items() if package["name"] == "tickless"]


def version(package):
    return tuple(int(part) for part in (package["rust_version"] or "0").split("."))


def is_built(kind):
    """Not for tests alone, and not for the model checkers."""
    target = kind["target"] or ""
    is_model = any(word in target for word in ("loom", "shuttle")) and "not(" not in target
    return kind["kind"] != "dev" and not is_model


seen, waiting = set(), [root]
while waiting:
    id = waiting.pop()
    if id not in seen:
        seen.add(id)
        deps = nodes[id]["deps"]
        waiting += [dep["pkg"] for dep in deps if any(map(is_built, dep["dep_kinds"]))]
newer = [packages[id] for id in seen if version(packages[id]) > version(packages[root])]
for package in newer:
    print(f"{package['name']} {package['version']} needs Rust {package['rust_version']}")
print(f"{len(seen) - 1} dependencies, all features on; ours is Rust {packages[root]['rust_version']}")
sys.exit(bool(newer))
EOF

# In a copy, since it writes the lock file anew.
oldest=$CARGO_TARGET_DIR/oldest
rm -rf "$oldest"
mkdir -p "$oldest"
cp -R --parents Cargo.toml src docs README.md SECURITY.md {core,wheel}/{Cargo.toml,src,README.md} "$oldest"
sed -i -e '/^\[workspace\]$/,/^$/c [workspace]\nresolver = "3"\n' \
    -e '/^\[.*dev-dependencies\]$/,/^$/d' -e '/^\[\[\(bench\|example\|test\)\]\]$/,/^$/d' "$oldest"/{,core/,wheel/}Cargo.toml
RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions --manifest-path "$oldest/Cargo.toml"
cargo check --quiet --package tickless --all-features --manifest-path "$oldest/Cargo.toml"
echo "builds with the oldest dependencies: $(cargo tree --quiet --all-features --depth 1 \
    --prefix none --manifest-path "$oldest/Cargo.toml" | sed '1d;s/ v/ /' | paste -sd, | sed 's/,/, /g')"
