#!/usr/bin/env bash
# The documentation builds, and its links lead somewhere.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps
