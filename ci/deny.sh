#!/usr/bin/env bash
# The licences, sources and duplicates of what the published crates depend on are those that deny.toml
# permits.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_command python3 python3
python3 ci/deny.py || fail "a dependency is not permitted"
