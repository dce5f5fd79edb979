#!/usr/bin/env bash
# Transfers of cache lines per operation, counted on simulated cores (README.md).
#
#   run.sh                      they stay below their limits: a matter of seconds
#   run.sh count handoff 16     one count, and which variables the transfers belong to
#   ALL=1 run.sh count keyed 8  the same of every access to memory, as the compiler instruments it
#   LONG=1 run.sh               they do on 64 cores, too; and all tables of the README, as
#                               Markdown: some twenty minutes
#
# LONG measures the same workloads on real threads first. On a machine that does other things, that
# takes `chrt -f 5` in front of it, and privileges.
source "$(dirname "${BASH_SOURCE[0]}")/../../ci/lib.sh"

# count_with ARGUMENT..: builds the program that counts what goes through `sync`, and runs it.
count_with() {
    RUSTFLAGS="--cfg coherence" CARGO_TARGET_DIR=target/coherence \
        cargo run --locked --release --package coherence -- "$@"
}

# count_all ARGUMENT..: the same of every access to memory. Names come from the table of lines.
count_all() {
    need_command addr2line binutils
    # As for the sanitizers: it works on the stable compiler, only the switches are not stable.
    local flags="--cfg coherence --cfg coherence_all -Zsanitizer=thread -Zexternal-clangrt"
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="$flags -Cunsafe-allow-abi-mismatch=sanitizer" \
        CARGO_PROFILE_RELEASE_DEBUG=line-tables-only RUSTC_WRAPPER=$PWD/proofs/coherence/rustc.sh CARGO_TARGET_DIR=target/coherence-all \
        cargo run --locked --release --target "$(host)" \
        --package coherence -- "$@"
}

if [ -n "${LONG:-}" ]; then
    count_with >&2
    base=target/coherence.base
    # As a program is built that cares.
    cargo run --locked --release --package coherence >"$base"
    count_all table "$base"
elif [ -n "${ALL:-}" ]; then
    count_all "$@"
else
    [ $# -gt 0 ] || cargo test --locked --package coherence-machine
    count_with "$@"
fi
