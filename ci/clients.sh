#!/usr/bin/env bash
# Programs of others talk over sockets, with timers of ours; and the doctests of the features for them.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

some_tests cargo test -p client-tests
# (These doctests use the clients.)
some_tests cargo test --doc --all-features -p tickless -p client-tests
