#!/usr/bin/env bash
# What changed in the public surface since a release, and whether the version says so. By hand, before a
# release: to build the tool takes ten minutes. The argument is the revision to compare
# with; without one it is the last release.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_cargo_tool cargo-semver-checks 0.51.0
baseline=${1:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)} ||
    fail "there is no release yet: name a revision"
cargo semver-checks --package tickless --package tickless-wheel --package tickless-netty --package tickless-inspect \
    --package tickless-durable --all-features --baseline-rev "$baseline"
