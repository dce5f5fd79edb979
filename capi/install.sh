#!/usr/bin/env bash
# Builds the library and installs it: capi/install.sh PREFIX [--dev | --uninstall]. DESTDIR is put
# before PREFIX, for packages. With --dev it is not optimized: for tests. With --uninstall, what was
# installed there is removed, whichever version it is, and so is what reference.sh wrote.
set -euo pipefail

usage() {
    echo "usage: capi/install.sh PREFIX [--dev | --uninstall]" >&2
    exit 2
}
[ $# -ge 1 ] && [ $# -le 2 ] || usage
case $1 in
'' | -*) usage ;;
esac
mode=${2:-}
case $mode in
'' | --dev | --uninstall) ;;
*) usage ;;
esac

to=${DESTDIR:-}$1
# A relative path is the caller's, and the build runs in the repository.
case $to in
/*) ;;
*) to=$PWD/$to ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "$mode" = --uninstall ]; then
    rm -f "$to/include/tickless.h" "$to/include/tickless.hpp" "$to/lib/pkgconfig/tickless.pc" \
        "$to/lib/libtickless.a" "$to/lib/libtickless.so" "$to/lib/libtickless.so."[0-9]* \
        "$to/share/man/man3/"{tickless,TICKLESS}[._]*.3
    rm -rf "$to/share/doc/tickless"
    echo "tickless is no longer in $to"
    exit
fi

if [ "$mode" = --dev ]; then
    from=debug
    cargo build --quiet --locked --package tickless-c
else
    from=release
    # As one piece: calls from C are as short as calls from Rust.
    cargo rustc --quiet --locked --package tickless-c --release --crate-type cdylib,staticlib \
        --config 'profile.release.lto="fat"' --config 'profile.release.codegen-units=1' \
        --config 'profile.release.debug=false'
fi
from=${CARGO_TARGET_DIR:-target}/$from

version=$(cargo metadata --locked --no-deps --format-version 1 |
    sed 's/.*"name":"tickless-c","version":"\([^"]*\)".*/\1/')
abi=$(sed -n 's/^#define TICKLESS_ABI_VERSION //p' capi/include/tickless.h)

install -d -m 755 "$to/include" "$to/lib/pkgconfig"
install -m 644 capi/include/tickless.h capi/include/tickless.hpp "$to/include"
install -m 755 "$from/libtickless_c.so" "$to/lib/libtickless.so.$version"
ln -sf "libtickless.so.$version" "$to/lib/libtickless.so.$abi"
ln -sf "libtickless.so.$abi" "$to/lib/libtickless.so"
install -m 644 "$from/libtickless_c.a" "$to/lib/libtickless.a"
# Rust's standard library also contains LLVM's bitcode. A clang with -flto takes that in place of the
# machine code, and an older one does not understand it.
objcopy --remove-section .llvmbc --remove-section .llvmcmd "$to/lib/libtickless.a"
pc=$to/lib/pkgconfig/tickless.pc
sed "s/@VERSION@/$version/" capi/tickless.pc.in >"$pc"
chmod 644 "$pc"
echo "tickless $version is in $to"
