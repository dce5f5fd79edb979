#!/usr/bin/env bash
# The tests once more, optimized: that is what users run, and what makes races meet.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_nextest
cargo nextest run --cargo-quiet --locked --all-features --release --profile "ci${LONG:+-long}"
