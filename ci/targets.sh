#!/usr/bin/env bash
# The crates on other systems. First it generates code of ours for each target that docs/systems.md
# names, with all features and without a warning. (A check would not do: what depends on sizes is
# asserted when code is generated.) Then it runs tests: with 32-bit words, on this processor; with
# `--cfg elsewhere`, by which Linux does without all that only Linux has; for Arm, under qemu. (That
# shows no reordering that this processor does not do itself; the models are for that.) What needs a
# standard library that rustup does not have, or a linker that cannot be had, is left out, and lines say so.
# Arguments choose targets and `elsewhere`; none: all.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

TARGETS=(aarch64-apple-darwin x86_64-apple-darwin x86_64-pc-windows-msvc x86_64-unknown-freebsd
    aarch64-unknown-linux-gnu armv7-unknown-linux-gnueabihf i686-unknown-linux-gnu)
# Those that have the wheel alone.
WHEELS=(thumbv6m-none-eabi thumbv7em-none-eabi riscv32imac-unknown-none-elf wasm32-unknown-unknown)
# Those whose programs can run here: the GNU name, and packages for the linker and for what it links.
declare -A RUN=(
    [aarch64-unknown-linux-gnu]="aarch64-linux-gnu libc6-dev-arm64-cross"
    [armv7-unknown-linux-gnueabihf]="arm-linux-gnueabihf libc6-dev-armhf-cross"
    [i686-unknown-linux-gnu]="i686-linux-gnu libc6-dev-i386-cross libc6-i386 lib32gcc-s1"
)
CORE=(--package tickless --package tickless-sync --package tickless-core)
export CARGO_TARGET_DIR=$PWD/target/targets
# One value for all calls, or build scripts would run again. What is only checked keeps the functions that ours make
# code of.
export RUSTFLAGS="-D warnings -Zalways-encode-mir" RUSTC_BOOTSTRAP=1
# Under qemu, and with the memory that 32 bits reach.
export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.3}"

# What is built and tested as elsewhere.
ELSEWHERE=(-Zprofile-rustflags)
for package in tickless tickless-core tickless-inspect race-tests; do
    ELSEWHERE+=(--config "profile.dev.package.$package.rustflags=['--cfg', 'elsewhere']" --package "$package")
done

# can_build TARGET: its standard library is there, or TARGET is left out.
can_build() {
    rustc --print target-list | grep -qx "$1" || fail "there is no target $1"
    rustup target add "$1" >/dev/null 2>&1 || true
    compgen -G "$(rustc --print target-libdir --target "$1")/libcore-*" >/dev/null ||
        { leave_out "$1: rustup does not have its standard library here" && false; }
}

# can_run TARGET: programs for this Linux can be linked and run, or its tests are left out.
can_run() {
    local name gnu packages emulator
    read -r gnu packages <<<"${RUN[$1]:-}"
    [ -n "$gnu" ] || return
    name=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$1")
    emulator=qemu-${gnu%%-*}
    export "${name}_LINKER=$gnu-gcc"
    [[ $1 == i686-* ]] || export "${name}_RUNNER=$emulator -L /usr/$gnu"
    # shellcheck disable=SC2086,SC2015
    has_command "$gnu-gcc" "gcc-$gnu" $packages && { [[ $1 == i686-* ]] || has_command "$emulator" qemu-user; } ||
        { leave_out "the tests for $1: there is no linker, or nothing here runs them" && false; }
}

# tests TARGET WHAT ARGUMENT..: these tests pass there.
tests() {
    some_tests cargo test --locked --target "$1" "${@:3}" || fail "$2, for $1"
    echo "passed for $1: $2"
}

# step TARGET: what the header says of it.
step() {
    local target=$1 package packages=(tickless-wheel tickless-sync tickless-core tickless tickless-inspect)
    if [ "$target" = elsewhere ]; then
        target=i686-unknown-linux-gnu
        # Where that does not run, this machine's own.
        can_build "$target" && can_run "$target" || target=$(host)
        tests "$target" "the engine, elsewhere" "${ELSEWHERE[@]}" --lib --test={suite,oracles,inspect,races}
        return
    fi
    can_build "$target" || return 0
    [[ " ${WHEELS[*]} " != *" $target "* ]] || packages=(tickless-wheel)
    for package in "${packages[@]}"; do
        cargo rustc --locked --profile check --target "$target" -p "$package" --lib --all-features -- --emit=obj ||
            fail "it does not build for $target"
    done
    echo "builds for $target"
    can_run "$target" || return 0
    tests "$target" "the wheel" --package tickless-wheel --tests
    case $target in
        i686-*) tests "$target" "the engine" "${CORE[@]}" --package tickless-inspect --tests ;;
        aarch64-*)
            # Code runs some ten times as long there.
            tests "$target" "the engine" "${CORE[@]}" --lib
            cargo build --locked --target "$target" --package tickless-c || fail "the C API, for $target"
            ;;
    esac
}

steps=("$@")
[ $# -gt 0 ] || steps=("${TARGETS[@]}" "${WHEELS[@]}" elsewhere)
for step in "${steps[@]}"; do
    step "$step"
done
