#!/usr/bin/env bash
# Builds the library and installs it: crates/capi/install.sh PREFIX [--dev | --uninstall]. DESTDIR is put
# before PREFIX, for packages. Libraries go to the folder "lib" there, or to that which LIBDIR names
# ("lib/x86_64-linux-gnu"). With --dev it is not optimized: for tests. With --uninstall, what was
# installed there is removed, whichever version it is, and so is what reference.sh wrote.
set -euo pipefail

usage() {
    echo "usage: crates/capi/install.sh PREFIX [--dev | --uninstall]" >&2
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
lib=${LIBDIR:-lib}
case $lib in
/* | *..*) echo "LIBDIR is a folder below PREFIX" >&2 && exit 2 ;;
esac
libdir=$to/$lib
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ "$mode" = --uninstall ]; then
    rm -f "$to/include/tickless"{,_wheel,_asio,_post}.{h,hpp} "$libdir/pkgconfig/tickless"{,-wheel}.pc \
        "$libdir/libtickless.a" "$libdir/libtickless.so" "$libdir/libtickless.so."[0-9]* \
        "$to/share/man/man3/"{tickless.3,{tickless,TICKLESS}_*.3}
    rm -rf "$to/share/tickless" "$to/share/doc/tickless" "$libdir/cmake/tickless"
    echo "tickless is no longer in $to"
    exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
profile=(--profile dev)
if [ "$mode" != --dev ]; then
    # As one piece: calls from C are as short as calls from Rust.
    profile=(--release --config 'profile.release.lto="fat"' \
        --config 'profile.release.codegen-units=1' --config 'profile.release.debug=false')
fi
# Where cargo puts it depends on the caller's settings, so cargo says it.
made=$(cargo rustc --quiet --locked --package tickless-c --crate-type staticlib "${profile[@]}" \
    --message-format=json-render-diagnostics |
    sed -n '/"reason":"compiler-artifact"/s/.*"\([^"]*libtickless_c\.a\)".*/\1/p')
[ -f "$made" ] || {
    echo "cargo has built no archive" >&2
    exit 1
}

version=$(cargo metadata --locked --no-deps --format-version 1 |
    sed 's/.*"name":"tickless-c","version":"\([^"]*\)".*/\1/')
abi=$(sed -n 's/^#define TICKLESS_ABI_VERSION //p' crates/capi/include/tickless.h)
grep -o '\btickless_[a-z_0-9]*(' crates/capi/include/tickless.h | tr -d '(' | LC_ALL=C sort -u >"$work/public"

# One object, in which only the public names are global: an archive of Rust's has those of its standard
# library, too, and two such archives clash in one program.
sed 's/^/--undefined=/' "$work/public" >"$work/needed"
ld -r --gc-sections --force-group-allocation "@$work/needed" "$made" -o "$work/tickless.o"
# Rust's standard library also contains LLVM's bitcode. A clang with -flto takes that in place of the
# machine code, and an older one does not understand it.
# And what the C library may not have stays weak, which ld forgets where nothing refers to it.
LC_ALL=C readelf -sW "$made" 2>/dev/null |
    awk '$5 == "WEAK" && $7 == "UND" { print $8 }' >"$work/weak"
objcopy --remove-section .llvmbc --remove-section .llvmcmd --weaken-symbols="$work/weak" \
    --keep-global-symbols="$work/public" "$work/tickless.o"
ar rcs "$work/libtickless.a" "$work/tickless.o"

# The public names have a version, and calls inside stay inside, whichever copies a program has. The
# library stays loaded: threads keep memory of the engines that they used, and free it when they end.
printf 'TICKLESS_%s {\nglobal: tickless_*;\nlocal: *;\n};\n' "$abi" >"$work/versions"
"${CC:-cc}" -shared "$work/tickless.o" -Wl,--version-script="$work/versions" -Wl,-Bsymbolic \
    -Wl,--gc-sections -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now -Wl,-z,defs \
    -Wl,-soname,"libtickless.so.$abi" -lgcc_s -lpthread -lm -ldl -lc -o "$work/libtickless.so"
[ "$mode" = --dev ] || strip --strip-unneeded "$work/libtickless.so"

install -d -m 755 "$to/include" "$libdir"
install -m 644 crates/capi/include/*.h crates/capi/include/*.hpp "$to/include"
install -m 755 "$work/libtickless.so" "$libdir/libtickless.so.$version"
ln -sf "libtickless.so.$version" "$libdir/libtickless.so.$abi"
ln -sf "libtickless.so.$abi" "$libdir/libtickless.so"
install -m 644 "$work/libtickless.a" "$libdir/libtickless.a"
install -d -m 755 "$to/share/tickless"
install -m 644 crates/capi/checkers/tsan.supp crates/capi/checkers/valgrind.supp "$to/share/tickless"

# fill TEMPLATE FILE: for a file that finds the prefix by its own place, a step up for each folder.
fill() {
    local up
    up=$(dirname "${2#"$to/"}" | sed 's|[^/]*|..|g')
    install -d -m 755 "$(dirname "$2")"
    sed "s|@VERSION@|$version|; s|@ABI@|$abi|; s|@UP@|$up|; s|@LIB@|$lib|" "$1" >"$2"
    chmod 644 "$2"
}
fill crates/capi/tickless.pc.in "$libdir/pkgconfig/tickless.pc"
fill crates/capi/tickless-wheel.pc.in "$libdir/pkgconfig/tickless-wheel.pc"
cmake=$libdir/cmake/tickless
fill crates/capi/tickless-config.cmake.in "$cmake/tickless-config.cmake"
fill crates/capi/tickless-config-version.cmake.in "$cmake/tickless-config-version.cmake"
echo "tickless $version is in $to"
