#!/usr/bin/env bash
# Under AddressSanitizer: use after free, out of bounds, double free; and at the end of each process,
# under LeakSanitizer, memory that nobody can reach. In the gate the engine's tests with several threads;
# with LONG=1 all of the crates. Arguments choose other tests, as for `cargo test`.

# As cargo's wrapper, `ci/asan.sh RUSTC OPTION..` compiles a crate of the workspace. The sanitizer works on the stable
# compiler; only its switch is not stable. With a block for each entry, it sees what is done to an entry that is free.
case "${1:-}" in
    */rustc | rustc)
        [[ " $* " =~ " --crate-name build_script_build " ]] || set -- "$@" -Zsanitizer=address --cfg asan -Cstrip=none
        RUSTC_BOOTSTRAP=1 exec "$@"
        ;;
esac
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

sanitize 0.2
# The workspace's accesses to memory are what is tested, and what it compiles of others' generics. Its dependencies
# are there from the other tests, without the sanitizer.
export RUSTC_WORKSPACE_WRAPPER=$PWD/ci/asan.sh
export ASAN_OPTIONS="detect_leaks=1 detect_stack_use_after_return=1"

built=target/debug
tests=(--locked "${TOGETHER[@]}" --package canary --test races)
[ -z "${LONG:-}" ] || tests=(--locked "${ENGINE[@]}" --package={canary,race-tests,tickless-demo} --tests --test races)
finds "ERROR: AddressSanitizer: heap-use-after-free" use-after-free
finds "ERROR: AddressSanitizer: heap-buffer-overflow" out-of-bounds
finds "ERROR: AddressSanitizer: attempting double-free" double-free
finds "ERROR: LeakSanitizer: detected memory leaks" leak circle
[ $# = 0 ] || tests=(--locked "$@")
some_tests cargo test "${tests[@]}"
