# What the scripts of ci/ and proofs/ share; each sources it first. Afterwards the working directory
# is the root of the repository.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
export CARGO_INCREMENTAL=0 CARGO_NET_RETRY=5 CARGO_TERM_QUIET=true CARGO_TERM_COLOR=never
# Builds that run once name functions in what they report, and no lines.
export CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_RELEASE_DEBUG=false
# Flags of the caller would make one build out of another.
unset RUSTFLAGS RUSTDOCFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR RUSTC_WORKSPACE_WRAPPER

# The engine and the crates beside it; and what the gate builds together: which features a dependency gets depends on
# all packages that a command names, so commands that name the same ones share what was built. (`cargo test` has all
# but the last two.)
CRATES=(tickless{,-sync,-core,-wheel,-inspect,-keyed,-netty,-purgatory})
ENGINE=("${CRATES[@]/#/--package=}")
TOGETHER=("${ENGINE[@]}" --package={tickless-demo,race-tests,test-support,tickless-durable,tickless-c})

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# with_lints: what cargo compiles of the workspace from here on is linted as it is compiled, since the compiler is
# clippy's (which leaves out MIR's optimizations), and a warning is an error. To check it by itself would
# take all that it needs once more.
with_lints() {
    export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
}

# leave_out WHAT: for lack of a tool. The runners repeat these lines in their summaries.
leave_out() {
    echo "left out: $*"
}

# readme LANGUAGE: the blocks of that language in the README of the C API.
readme() {
    sed -n "/^ *\`\`\`$1\$/,/^ *\`\`\`\$/{/^ *\`\`\`/d;s/^  //;p}" crates/capi/README.md
}

# without_rust: `bare` and a script run it with what was installed to `out`/prefix, a few commands, and no Rust.
without_rust() {
    local command
    mkdir "$out/bin"
    for command in sh cc c++ ar as ld pkg-config cmake make meson ninja python3; do
        ln -s "$(command -v "$command" || echo /nowhere)" "$out/bin/$command"
    done
    bare=(env -i "PATH=$out/bin" "PKG_CONFIG_PATH=$out/prefix/lib/pkgconfig" "LD_LIBRARY_PATH=$out/prefix/lib"
        LC_ALL=C.UTF-8 sh -euc 'if command -v cargo || command -v rustc; then exit 1; fi; eval "$0"')
}

# refused WORDS COMMAND..: it fails, and says this. All that it says is in `said`.
refused() {
    ! said=$("${@:2}" 2>&1) || fail "this passes: ${*:2}"
    grep -qF -- "$1" <<<"$said" || fail "it failed, but without \"$1\": $said"
}

# The triple of this machine. Sanitized builds name it as their target, so that build scripts and
# macros, which run inside the compiler, stay as they are.
host() {
    rustc -vV | sed -n 's/^host: //p'
}

# has_command COMMAND PACKAGE..: COMMAND is there, or was installed from Debian's PACKAGEs.
has_command() {
    command -v "$1" >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return
    echo "installing ${*:2} for $1"
    mkdir -p target
    # Stages that run at the same time take turns.
    DEBIAN_FRONTEND=noninteractive flock target/apt.lock sh -c 'apt-get update -qq &&
        apt-get install -y -qq --no-remove --no-install-recommends "$@"' sh "${@:2}" >/dev/null
}

# cannot WHAT: for lack of a tool the gate fails. The long run leaves out the rest of this check instead.
cannot() {
    [ -n "${LONG:-}" ] || fail "$1"
    leave_out "$(basename "$0" .sh), from here on: $1"
    exit 0
}

need_command() {
    has_command "$@" || cannot "$1 is missing, and ${*:2} could not be installed"
}

# need_cargo_tool CRATE VERSION [OPTION..]: the command of that crate is there, in whatever version, or is
# built.
need_cargo_tool() {
    command -v "$1" >/dev/null && return
    echo "installing $1 $2"
    need_exactly "$@"
}

# The same, in this version. To optimize it takes longer than it saves.
need_exactly() {
    cargo install --locked --debug --version "$2" "$1" "${@:3}" || cannot "$1 $2 could not be installed"
}

need_nextest() {
    need_cargo_tool cargo-nextest 0.9.143 \
        --no-default-features --features default-no-update
}

# some_tests COMMAND..: runs it, and fails also if no test ran. In the long run, what fails hides nothing.
some_tests() {
    local log
    [ "$1 $2" != "cargo test" ] || set -- cargo test ${LONG:+--no-fail-fast} "${@:3}"
    log=$(mktemp)
    "$@" 2>&1 | tee "$log" || fail "a test failed: $*"
    grep -qE '^test result: ok\. [1-9]' "$log" || fail "no test ran: $*"
    rm "$log"
}

# sanitize PART: tests do this part of what they do without a sanitizer: in the long run, of three times as much.
sanitize() {
    local usual=${LONG:+0.15}
    TICKLESS_TEST_SCALE=$(awk "BEGIN { print ${TICKLESS_TEST_SCALE:-${usual:-0.05}} * $1 }")
    export TICKLESS_TEST_SCALE
    # Reports name functions, and suppressions match on the names.
    need_command llvm-symbolizer llvm
}

# finds HEADLINE BUG..: the sanitizer reports each of these bugs of the canary (ci/canary) under this
# headline, and in our types. Without a bug, the canary passes. It lies in `built`.
finds() {
    local headline=$1 bug canary=$built/canary
    shift
    # With the tests that come next, which need nothing else then.
    cargo build "${tests[@]}" --bin canary
    "$canary" nothing || fail "a report where there is no bug"
    for bug; do
        # The standard library keeps no frame pointers: who called it is only found the slow way.
        refused "$headline" env ASAN_OPTIONS="${ASAN_OPTIONS:-}:fast_unwind_on_malloc=0" "$canary" "$bug"
        grep -qE 'tickless(_core|_sync)?::' <<<"$said" || fail "the canary $bug is not reported as ours: $said"
        echo "finds $bug"
    done
}
