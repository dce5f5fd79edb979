# What the stages share; each sources it first. Afterwards the working directory is the root of
# the repository, whatever it was before.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
# Every stage builds once, so what incremental builds write down is of no use.
export CARGO_INCREMENTAL=0
export CARGO_NET_RETRY=5
# Flags of the caller would make one variant out of another.
unset RUSTFLAGS RUSTDOCFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS

# The versions that the stages were tried with.
NEXTEST_VERSION=0.9.143
SEMVER_VERSION=0.51.0
MUTANTS_VERSION=27.1.0

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# programs_without NAME..: the options that choose all programs of tests/, wheel/tests/ and demo/tests/ but these.
programs_without() {
    local name
    for name in "$@"; do
        [ -e "tests/$name.rs" ] || [ -e "wheel/tests/$name.rs" ] ||
            [ -e "demo/tests/$name.rs" ] || fail "there are no tests called $name to leave out"
    done
    while read -r name; do
        [[ " $* " == *" $name "* ]] || printf '%s\n' --test "$name"
    done < <(sed -n '/^\[\[test\]\]$/{n;s/^name = "\(.*\)"$/\1/p}' {,wheel/,demo/}Cargo.toml)
}

# be_quick: the build that RUSTFLAGS and BUILD describe does without the clients of others, and without the
# features for them.
be_quick() {
    local name features
    features=$(sed -n '/^\[features\]$/,/^$/s/^\([a-z-]*\) = .*/\1/p' Cargo.toml)
    for name in hyper quinn; do
        grep -qx "$name" <<<"$features" || fail "there is no feature $name to leave out"
        features=$(grep -vx "$name" <<<"$features")
    done
    RUSTFLAGS+=" --cfg quick"
    BUILD+=(--features "$(paste -sd, <<<"$features")")
}

# no_line_tables: for optimized builds that run once. A failed assertion names its line without.
# Stages that share a target directory share this, or each would build everything anew.
no_line_tables() {
    export CARGO_PROFILE_RELEASE_DEBUG=false
}

# lint_what_is_built: from here on, a warning of the compiler or of clippy in what cargo builds of this workspace
# is an error. Clippy's compiler makes programs, as the usual one does, and takes an eighth longer; to check
# everything apart would take as long as another build.
lint_what_is_built() {
    command -v clippy-driver >/dev/null || fail "clippy is missing: rustup component add clippy"
    export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
}

# For builds of the models: the parts of a crate are compiled side by side, unlike in what is
# measured. And what the models never run is not optimized (which saves a quarter of loom's build).
MODELS=(--config 'profile.release.package.tickless.codegen-units=16')
for dependency in linux-raw-sys num_cpus nu-ansi-term regex-automata regex-syntax rustix \
    tracing-subscriber; do
    MODELS+=(--config "profile.release.package.$dependency.opt-level=0")
done
unset dependency

# For sanitized builds: reports name lines of the workspace alone.
OWN_LINES=(--config 'profile.dev.package."*".debug=false')

# lines_for ARGUMENT..: a sanitized build for some tests names lines in its reports. One for all does
# not: that would take a third of the time of its stage. (It names functions, also those of the
# standard library that the compiler has inlined, by which ci/tsan.supp knows them.)
lines_for() {
    [ $# -gt 0 ] && export CARGO_PROFILE_DEV_DEBUG=line-tables-only && return
    export CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_DEV_STRIP=none
}

# The triple of this machine. Sanitized builds name it as their target, so that build scripts and
# macros, which run inside the compiler, stay as they are.
host() {
    rustc -vV | sed -n 's/^host: //p'
}

# need_command COMMAND PACKAGE..: COMMAND is there, or is installed from Debian's PACKAGEs.
need_command() {
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "$1 is missing, and only root with apt-get could install ${*:2} here"
    fi
    echo "installing ${*:2} for $1"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-remove --no-install-recommends "${@:2}"; } \
        >/dev/null || fail "$1 is missing, and ${*:2} could not be installed"
}

# need_cargo_tool CRATE VERSION [OPTION..]: the cargo subcommand of that crate is there, in
# whatever version, or is built.
need_cargo_tool() {
    local crate=$1 version=$2
    shift 2
    cargo "${crate#cargo-}" --version >/dev/null 2>&1 && return
    install_tool "$crate" "$version" "$@"
}

# install_tool CRATE VERSION [OPTION..]: builds the crate's commands, in place of others.
install_tool() {
    local crate=$1 version=$2
    shift 2
    echo "installing $crate $version"
    # Built to be used once: optimizing takes longer than it saves.
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --version "$version" \
        "$crate" "$@" || fail "$crate is missing, and could not be installed"
}

need_nextest() {
    need_cargo_tool cargo-nextest "$NEXTEST_VERSION" \
        --no-default-features --features default-no-update
}

need_valgrind() {
    need_command valgrind valgrind
}

# Sanitizers name functions in their reports, and suppressions match on the names.
need_symbolizer() {
    need_command llvm-symbolizer llvm
}

# build_canary OPTION..: bugs on purpose, built as the tests of these options are; and a program without
# any passes. (One of the tests is named, so that the features of the dependencies are theirs, too.)
build_canary() {
    cargo build --quiet "$@" --package canary --bin canary --test elsewhere
    CANARY="$CARGO_TARGET_DIR/$(host)/debug/canary"
    "$CANARY" nothing || fail "a report where there is no bug"
}

# finds BUG HEADLINE: the sanitizer reports the canary under this headline, and in our types.
finds() {
    local bug=$1 headline=$2 report
    # The standard library keeps no frame pointers: who called it, and allocated what leaked, is
    # only found the slow way.
    if report=$(ASAN_OPTIONS="${ASAN_OPTIONS:-}:fast_unwind_on_malloc=0" "$CANARY" "$bug" 2>&1)
    then
        fail "the canary $bug goes unnoticed"
    fi
    grep -qF "$headline" <<<"$report" && grep -q 'tickless::' <<<"$report" || {
        echo "$report" >&2
        fail "the canary $bug is not reported as \"$headline\" of ours"
    }
    echo "finds $bug"
}
