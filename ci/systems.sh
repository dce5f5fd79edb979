#!/usr/bin/env bash
# The crate compiles for the systems that docs/systems.md names, with all features, and the wheel for
# those without a standard library. Nothing is run. Not a stage of the pipeline: it takes minutes, and
# the compiler's parts for each system. Arguments choose targets.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

WITH_STD=(aarch64-unknown-linux-gnu aarch64-apple-darwin x86_64-pc-windows-msvc
    x86_64-unknown-freebsd i686-unknown-linux-gnu)
WITHOUT_STD=(thumbv6m-none-eabi thumbv7em-none-eabi riscv32imac-unknown-none-elf)

export CARGO_TARGET_DIR=target/systems
targets=("$@")
[ $# -gt 0 ] || targets=("${WITH_STD[@]}" "${WITHOUT_STD[@]}")
for target in "${targets[@]}"; do
    rustc --print target-list | grep -qx "$target" || fail "there is no target $target"
    rustup target add "$target" >/dev/null 2>&1 || fail "the parts for $target could not be installed"
    package=(--package tickless --all-features)
    [[ " ${WITHOUT_STD[*]} " == *" $target "* ]] && package=(--package tickless-wheel)
    RUSTFLAGS="-D warnings" cargo check --quiet --locked --lib "${package[@]}" --target "$target" ||
        fail "it does not compile for $target"
    echo "compiles for $target"
done
