#!/usr/bin/env bash
# The tests and the doctests: those that the README's command runs, those of durable timers on the stores
# that need no server (ci/servers.sh has the others), and those of the C library's crate.
# DURABLE_KILLS: how often the tests kill a process with durable timers.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

with_lints
# SQLite comes as C.
need_command cc gcc
some_tests cargo test --locked "${TOGETHER[@]}"
