#!/usr/bin/env bash
# The machine: what it is, and that the tools are there which the other stages need.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

echo "cores     $(nproc)"
echo "memory    $(awk '/^MemTotal/ { print int($2 / 1024) " MiB" }' /proc/meminfo)"
echo "system    $(uname -sr)"
echo "compiler  $(rustc -V)"
need_command cc gcc
need_symbolizer
need_nextest
need_fuzz
need_valgrind
need_gungraun
echo "nextest   $(cargo nextest --version | head -n 1)"
echo "fuzz      $(cargo fuzz --version)"
echo "valgrind  $(valgrind --version)"
echo "gungraun  $(gungraun-runner --version)"
# A lock file out of date would be rewritten by the first plain `cargo` and go unnoticed.
for manifest in Cargo.toml fuzz/Cargo.toml ci/no_std/Cargo.toml; do
    cargo metadata --quiet --locked --format-version 1 --manifest-path "$manifest" >/dev/null ||
        fail "the lock file beside $manifest is missing or out of date"
done
