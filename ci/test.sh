#!/usr/bin/env bash
# The tests of both crates as the README says to run them, doctests included. (The examples are built and run by a
# stage of their own, and so are the benches. The models' bodies on threads of the system run under
# ThreadSanitizer.)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CARGO_TERM_QUIET=true
# A failed assertion names its line without, and this is quicker to build and to link.
export CARGO_PROFILE_DEV_DEBUG=false
cargo test --locked --all-features --tests
cargo test --locked --all-features --doc
