#!/usr/bin/env bash
# The tests and the doctests, by the README's command: the plain `cargo test` of each crate whose tests are
# not in a check of their own, with the features that it asks for itself.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

some_tests cargo test
