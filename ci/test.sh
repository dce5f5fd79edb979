#!/usr/bin/env bash
# The tests of both crates as the README says to run them, doctests included. (The examples are built and run by a
# stage of their own, and so are the benches. The models' bodies on threads of the system run under
# ThreadSanitizer.)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CARGO_TERM_QUIET=true
lint_what_is_built
# A failed assertion names its line without, and this is quicker to build and to link.
export CARGO_PROFILE_DEV_DEBUG=false
# Half of the random histories; `fuzz` draws more, and ci/long.sh many more.
export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.5}"
cargo test --locked --all-features --tests --no-run
# While the tests run, which wait now and then, the doctests are built.
doctests="$(mktemp)"
trap 'rm -f "$doctests"' EXIT
cargo test --locked --all-features --doc >"$doctests" 2>&1 &
cargo test --locked --all-features --tests
verdict=0
wait $! || verdict=$?
cat "$doctests"
exit "$verdict"
