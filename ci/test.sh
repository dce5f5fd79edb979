#!/usr/bin/env bash
# The tests as the README says to run them, doctests included; then those of the workspace's other
# members.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CARGO_TERM_QUIET=true
# Enough for a backtrace, and quicker to link.
export CARGO_PROFILE_DEV_DEBUG=line-tables-only
cargo test --all-features
cargo test --locked --workspace --exclude tickless
