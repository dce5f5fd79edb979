#!/usr/bin/env bash
# Transfers of cache lines per operation, counted on simulated cores. By default, that they stay below
# their limits, which is a matter of seconds. With LONG=1, all tables of README.md: this measures the
# same workloads on real threads first, and takes some twenty minutes. With arguments, one count:
# `run.sh count handoff 16`.
source "$(dirname "${BASH_SOURCE[0]}")/../../ci/lib.sh"

# count_with ARGUMENT..: builds the program that counts, and runs it.
count_with() {
    RUSTFLAGS="--cfg coherence" CARGO_TARGET_DIR=target/coherence CARGO_PROFILE_RELEASE_DEBUG=false \
        cargo run --quiet --locked --release "${MODELS[@]}" --package coherence -- "$@"
}

if [ -n "${LONG:-}" ]; then
    base=target/coherence.base
    # As a program is built that cares.
    cargo run --quiet --locked --release --package coherence >"$base"
    echo "### Measured on real threads: ns of processor time per operation (median, least, greatest)"
    echo
    sed 's/^/    /' "$base"
    echo
    count_with table "$base"
    exit
fi
if [ $# -eq 0 ]; then
    cargo test --quiet --locked --package coherence-machine
fi
count_with "$@"
