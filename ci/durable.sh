#!/usr/bin/env bash
# Durable timers on the stores that need no server: the crate's tests, and its example, which kills
# itself and fails by itself if a reminder is lost or early. (ci/servers.sh has the other stores.)
# DURABLE_KILLS: how often the tests kill a process.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# SQLite comes as C.
need_command cc gcc
some_tests cargo test -p tickless-durable
timeout 600 cargo run -p tickless-durable --example reminders -- --reminders 10000 ||
    fail "reminders ended with $?"
