#!/usr/bin/env bash
# Builds the library and installs it: capi/install.sh PREFIX [--dev]. DESTDIR is put before PREFIX,
# for packages. With --dev it is not optimized: for tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -ge 1 ] || {
    echo "usage: capi/install.sh PREFIX [--dev]" >&2
    exit 2
}
to=${DESTDIR:-}$1
if [ "${2:-}" = --dev ]; then
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

mkdir -p "$to/include" "$to/lib/pkgconfig"
install -m 644 capi/include/tickless.h capi/include/tickless.hpp "$to/include"
install -m 755 "$from/libtickless_c.so" "$to/lib/libtickless.so.$version"
ln -sf "libtickless.so.$version" "$to/lib/libtickless.so.$abi"
ln -sf "libtickless.so.$abi" "$to/lib/libtickless.so"
install -m 644 "$from/libtickless_c.a" "$to/lib/libtickless.a"
sed "s/@VERSION@/$version/" capi/tickless.pc.in >"$to/lib/pkgconfig/tickless.pc"
echo "tickless $version is in $to"
