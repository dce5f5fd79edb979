#!/usr/bin/env bash
# Under Miri: the rules of aliasing and of pointer provenance, which no other check here knows. It runs what needs
# no system call: the wheel, and the unit tests of the core with small sizes.
# Where Miri is not installed (`rustup +nightly component add miri`), it is left out.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    leave_out "Miri, which is a component of the nightly compiler"
    exit 0
fi
# The epoch collector tags pointers by integers, and keeps what waits when the process ends.
export MIRIFLAGS="-Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-disable-isolation"
export CARGO_TARGET_DIR=target/miri TICKLESS_TEST_SCALE=0.01
cargo +nightly miri test --locked -p tickless-wheel --lib
# Two that make thousands of entries or of counters take minutes each.
cargo +nightly miri test --locked -p tickless-core --lib -- entry inbox memory wheel shard \
    --skip each_entry_finds_its_header --skip there_are_as_many_as_there_were_writers
