#!/usr/bin/env bash
# The machine: what it is, and that the tools are there which the other stages need.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

echo "cores     $(nproc)"
echo "memory    $(awk '/^MemTotal/ { print int($2 / 1024) " MiB" }' /proc/meminfo)"
echo "system    $(uname -sr)"
echo "compiler  $(rustc -V)"
need_command cc gcc
# libFuzzer comes as C++.
need_command c++ g++
need_symbolizer
need_nextest
need_valgrind
echo "nextest   $(cargo nextest --version | head -n 1)"
echo "valgrind  $(valgrind --version)"
# A lock file out of date would be rewritten by the first plain `cargo` and go unnoticed.
for manifest in Cargo.toml fuzz/Cargo.toml ci/no_std/Cargo.toml; do
    cargo metadata --quiet --locked --format-version 1 --manifest-path "$manifest" >/dev/null ||
        fail "the lock file beside $manifest is missing or out of date"
done
