#!/usr/bin/env bash
# Makes Debian packages of the C library, in a copy of the tracked files or of an unpacked release: crates/capi/packaging/deb.sh OUT.
# Needs debhelper, doxygen, and a cargo in the path: Debian's own may be too old, so that it is no build
# dependency. With DEB_BUILD_OPTIONS=noopt, the library is not optimized: for tests.
set -euo pipefail

[ $# = 1 ] && [ -n "$1" ] && [ "${1#-}" = "$1" ] || {
    echo "usage: crates/capi/packaging/deb.sh OUT" >&2
    exit 2
}
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
tree=$work/tickless-$version
mkdir "$tree"
if git rev-parse --is-inside-work-tree >/dev/null 2>&1 && [ -n "$(git ls-files crates/capi/install.sh)" ]; then
    git ls-files -z | xargs -0 cp --parents -P -t "$tree"
    date=$(git log -1 --format=%cD)
else
    # What was unpacked from a release, without what was built since.
    tar -c --exclude=./target --exclude=./.git . | tar -x -C "$tree"
    date=$(date -R -r Cargo.toml)
fi
cp -r crates/capi/packaging/debian "$tree"
printf 'tickless (%s) unstable; urgency=medium\n\n  * Built from the repository.\n\n -- %s  %s\n' "$version" \
    "$(sed -n 's/^Maintainer: //p' crates/capi/packaging/debian/control)" "$date" >"$tree/debian/changelog"
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign --no-check-builddeps)
cp "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$out"
ls "$out"
