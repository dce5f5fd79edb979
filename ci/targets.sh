#!/usr/bin/env bash
# The crates on other systems. First it generates code of ours for each target that docs/systems.md
# names, with all features and without a warning. (A check would not do: what depends on sizes is
# asserted when code is generated.) Then it runs tests: with 32-bit words, on this processor; with
# `--cfg elsewhere`, by which Linux does without all that only Linux has; for Arm, under qemu. (That
# shows no reordering that this processor does not do itself; the models are for that.)
#
# A target's standard library comes by rustup. If it cannot be had there, Debian's compiler builds
# it from its source: both are unpacked below target/ and not installed. What can be had in neither
# way, or needs a linker that cannot be had, is left out, and the last lines say so.
#
# Arguments choose targets and `elsewhere`; none: all.
# COMPILER=debian: as if rustup had none.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

TARGETS=(aarch64-apple-darwin x86_64-apple-darwin x86_64-pc-windows-msvc x86_64-unknown-freebsd
    aarch64-unknown-linux-gnu armv7-unknown-linux-gnueabihf i686-unknown-linux-gnu)
# With the package of the linker, and of the C library that it links.
declare -A LINKERS=(
    [aarch64-unknown-linux-gnu]="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    [armv7-unknown-linux-gnueabihf]="gcc-arm-linux-gnueabihf libc6-dev-armhf-cross"
    [i686-unknown-linux-gnu]="gcc-i686-linux-gnu libc6-dev-i386-cross libc6-i386"
)
# The wheel alone.
WHEELS=(thumbv6m-none-eabi thumbv7em-none-eabi riscv32imac-unknown-none-elf wasm32-unknown-unknown)
export CARGO_TARGET_DIR=$PWD/target/targets
export RUSTFLAGS="-D warnings -Zalways-encode-mir"
# For `-Z`; one value for all calls, or build scripts would run again.
export RUSTC_BOOTSTRAP=1
# Under qemu, and with the memory that 32 bits reach.
export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.3}"

ELSEWHERE=(-Zprofile-rustflags --config 'profile.dev.package.tickless.rustflags=["--cfg", "elsewhere"]'
    --config 'profile.dev.package.tickless-core.rustflags=["--cfg", "elsewhere"]'
    --config 'profile.dev.package.tickless-inspect.rustflags=["--cfg", "elsewhere"]')

# debian_compiler: Debian's compiler and the source of its standard library are there, in whatever
# version Debian has, and DEBIAN is a program that calls it. It tries once to get them.
debian_compiler() {
    local into=$PWD/target/debian-rust library llvm
    if [ -n "${DEBIAN:-}" ]; then
        [ -e "$DEBIAN" ]
        return
    fi
    DEBIAN=$into/rustc
    [ ! -e "$DEBIAN" ] || return 0
    [ "$(uname -m)" = x86_64 ] && command -v apt-get >/dev/null || return 1
    echo "unpacking Debian's compiler"
    [ "$(id -u)" != 0 ] || apt-get update -qq >/dev/null || return 1
    depends() {
        apt-cache depends "$1" 2>/dev/null | sed -n "s/^ *Depends: \($2\)$/\1/p"
    }
    library=$(depends libstd-rust-web-dev 'libstd-rust-web-[0-9.]*')
    llvm=$(depends "$library" 'libllvm[0-9]*')
    rm -rf "$into"
    mkdir -p "$into/packages"
    (cd "$into/packages" && apt-get download -qq rustc-web rust-web-src libstd-rust-web-dev \
        "$library" "$llvm" >/dev/null 2>&1) || return 1
    for package in "$into"/packages/*.deb; do
        dpkg -x "$package" "$into" || return 1
    done
    rm -r "$into/packages"
    cat >"$DEBIAN.new" <<-EOF
	#!/bin/sh
	LD_LIBRARY_PATH=$into/usr/lib/x86_64-linux-gnu exec $into/usr/bin/rustc "\$@"
	EOF
    chmod +x "$DEBIAN.new"
    "$DEBIAN.new" --version && mv "$DEBIAN.new" "$DEBIAN"
}

# can_build TARGET: its standard library is there, or TARGET is left out. Then `cargo_for TARGET`
# calls cargo for it.
declare -A standard=()
can_build() {
    [ -z "${standard[$1]:-}" ] || return 0
    if [ "${COMPILER:-}" != debian ] || [ "$1" = "$(host)" ]; then
        if command -v rustup >/dev/null; then
            rustup target add "$1" >/dev/null 2>&1 || true
        fi
        if compgen -G "$(rustc --print target-libdir --target "$1")/libcore-*" >/dev/null; then
            standard[$1]=ready
            return 0
        fi
    fi
    if debian_compiler; then
        standard[$1]=source
    else
        leave_out "$1: neither rustup nor Debian has its standard library here"
    fi
    [ -n "${standard[$1]:-}" ]
}

cargo_for() {
    local target=$1 command=$2 parts=std,panic_abort
    shift 2
    if [ "${standard[$target]}" = ready ]; then
        cargo "$command" --locked --target "$target" "$@"
        return
    fi
    [[ " ${WHEELS[*]} " != *" $target "* ]] || parts=core,alloc
    RUSTC=$DEBIAN cargo "$command" --locked --target "$target" "-Zbuild-std=$parts" "$@"
}

# can_run TARGET: programs for this Linux can be linked and run, or its tests are left out.
can_run() {
    local target=$1 packages name prefix
    read -ra packages <<<"${LINKERS[$target]}"
    name=$(tr 'a-z-' 'A-Z_' <<<"$target")
    prefix=${packages[0]#gcc-}
    if ! has_command "$prefix-gcc" "${packages[@]}"; then
        leave_out "the tests for $target: there is no linker"
        return 1
    fi
    # The library that unwinds, for which the linker does not ask.
    if [[ $target == i686-* ]] && ! ldconfig -p | grep -F 'libgcc_s.so.1 (libc6)' >/dev/null &&
        ! has_command libgcc_s.so.1 lib32gcc-s1; then
        leave_out "the tests for $target: there is no lib32gcc-s1"
        return 1
    fi
    export "CARGO_TARGET_${name}_LINKER=$prefix-gcc"
    case $target in
        i686-*) [ "$(uname -m)" = x86_64 ] && return ;;
        aarch64-*) has_command qemu-aarch64 qemu-user &&
            export "CARGO_TARGET_${name}_RUNNER=qemu-aarch64 -L /usr/$prefix" && return ;;
        armv7-*) has_command qemu-arm qemu-user &&
            export "CARGO_TARGET_${name}_RUNNER=qemu-arm -L /usr/$prefix" && return ;;
    esac
    leave_out "the tests for $target: nothing here runs them"
    return 1
}

# builds TARGET: code of the engine with all features, of the inspector, and of the wheel. The crates that they need are only
# checked, which keeps the functions that ours make code of (`-Z always-encode-mir`).
builds() {
    can_build "$1" || return 0
    local package packages=(tickless-wheel tickless-sync tickless-core tickless tickless-inspect) command=(rustc --profile check)
    local generate=(-- --emit=obj)
    [[ " ${WHEELS[*]} " != *" $1 "* ]] || packages=(tickless-wheel)
    # A standard library that is built as well is built as a whole.
    [ "${standard[$1]}" = ready ] || command=(build) generate=()
    for package in "${packages[@]}"; do
        cargo_for "$1" "${command[@]}" --lib --package "$package" --all-features "${generate[@]}" ||
            fail "it does not build for $1"
    done
    echo "builds for $1"
}

# tests TARGET WHAT ARGUMENT..: these tests pass there.
tests() {
    local target=$1 what=$2
    shift 2
    some_tests cargo_for "$target" test "$@" || fail "$what, for $target"
    echo "passed for $target: $what"
}

# step TARGET: what the header says of it.
step() {
    local target=$1
    case $target in
        i686-unknown-linux-gnu)
            can_build "$target" || return 0
            can_run "$target" || { builds "$target" && return; }
            tests "$target" "the wheel" --package tickless-wheel --tests
            tests "$target" "the engine" --package tickless --package tickless-sync --package tickless-core --package tickless-inspect --tests
            ;;
        elsewhere)
            target=i686-unknown-linux-gnu
            # Where that does not run, this machine's own.
            can_build "$target" && can_run "$target" || target=$(host)
            can_build "$target" || return 0
            tests "$target" "the engine, elsewhere" "${ELSEWHERE[@]}" --package tickless --package tickless-core \
                --package tickless-inspect --package race-tests --lib --test suite --test oracles --test inspect --test races
            ;;
        aarch64-unknown-linux-gnu | armv7-unknown-linux-gnueabihf)
            builds "$target"
            [ -n "${standard[$target]:-}" ] && can_run "$target" || return 0
            # Code runs some ten times as long there.
            tests "$target" "the wheel" --package tickless-wheel --tests
            # 32 bits run much faster on this processor.
            [[ $target == aarch64-* ]] || return 0
            tests "$target" "the engine" --package tickless --package tickless-sync --package tickless-core --lib
            cargo_for "$target" build --package tickless-c || fail "the C API, for $target"
            echo "builds for $target: the C API"
            ;;
        *)
            rustc --print target-list | grep -qx "$target" || fail "there is no target $target"
            builds "$target"
            ;;
    esac
}

steps=("$@")
[ $# -gt 0 ] || steps=("${TARGETS[@]}" "${WHEELS[@]}" elsewhere)
for step in "${steps[@]}"; do
    step "$step"
done
