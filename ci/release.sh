#!/usr/bin/env bash
# A release, from its check to its tag: ci/release.sh [--check | --publish]. CONTRIBUTING.md says what precedes it.
#   (nothing)   a rehearsal: packs all crates that are published, builds them from their packages as a user would,
#               shows their sizes and what is in them, and builds the pages (ci/docs.sh)
#   --check     fails on what whoever publishes has to fill in, or has forgotten
#   --publish   all of this, then publishes the crates in the order of their dependencies, and tags the commit
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The registry takes five new names at once, then one in ten minutes.
BURST=5 PAUSE=600

need_command python3 python3
# Those before each that it depends on: NAME, VERSION and REPOSITORY of each.
mapfile -t crates < <(cargo metadata --locked --format-version 1 --no-deps | python3 -c '
import graphlib, json, sys
crates = {krate["name"]: krate for krate in json.load(sys.stdin)["packages"] if krate["publish"] != []}
needs = {name: [need["name"] for need in krate["dependencies"] if need["name"] in crates and need["kind"] is None]
         for name, krate in crates.items()}
for name in graphlib.TopologicalSorter(needs).static_order():
    print(name, crates[name]["version"], crates[name]["repository"])')
names=("${crates[@]%% *}")
version=$(cut -d ' ' -f 2 <<<"${crates[0]}")

check() {
    local crate
    for crate in "${crates[@]}"; do
        [[ $crate == *" $version https://"* ]] || fail "not of version $version, or without a repository: $crate"
    done
    ! grep -q OWNER <<<"${crates[*]}" || fail "\`repository\` in Cargo.toml still has a placeholder: OWNER"
    grep -qE "^## \[?$version\]? - [0-9]{4}-" CHANGELOG.md || fail "CHANGELOG.md has no date for $version"
    [ -z "$(git status --porcelain)" ] || fail "something is not committed"
    ! git rev-parse -q --verify "v$version" >/dev/null || fail "the tag v$version exists"
}

rehearse() {
    local name list=target/package/list
    cargo publish --workspace --dry-run --locked --allow-dirty
    cargo package --no-verify --locked --allow-dirty "${names[@]/#/--package=}"
    for name in "${names[@]}"; do
        cargo package --list --locked --allow-dirty -p "$name" >"$list"
        printf '%-20s %4d files, %5d kB packed\n' "$name" "$(wc -l <"$list")" \
            "$(($(stat -c %s "target/package/$name-$version.crate") / 1000))"
        ! grep -E '^(tests/(races|suite|alone)|proofs/.*\.(rs|tla|py)|benches)/|\.svg$' "$list" ||
            fail "$name has files that no user needs"
    done
    ci/docs.sh
    if git rev-parse -q --verify 'v[0-9]*' >/dev/null; then
        need_cargo_tool cargo-semver-checks 0.44.0
        cargo semver-checks --workspace --all-features --baseline-rev "$(git describe --tags --abbrev=0)"
    else
        echo "nothing was released, so no surface can have changed"
    fi
}

case ${1:-} in
    "") rehearse ;;
    --check) check ;;
    --publish)
        check
        rehearse
        for at in "${!names[@]}"; do
            [ "$at" -lt "$BURST" ] || ! cargo info "${names[at]}" 2>&1 | grep -q 'could not find' || sleep "$PAUSE"
            cargo publish --locked -p "${names[at]}"
        done
        git tag -a "v$version" -m "$version"
        echo "left to do: git push --follow-tags"
        ;;
    *) fail "usage: ci/release.sh [--check | --publish]" ;;
esac
