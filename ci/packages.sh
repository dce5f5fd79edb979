#!/usr/bin/env bash
# The packages of the C library (crates/capi/packaging): a prefix with nothing but what was installed builds the
# examples by Meson; so do Meson's subproject, Debian's packages, Conan's, and vcpkg's port where VCPKG_ROOT names a
# checkout of vcpkg, each with a program that runs.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_command meson meson ninja-build
need_command pkg-config pkg-config
need_command dpkg-buildpackage dpkg-dev
need_command dh debhelper
need_command doxygen doxygen
need_command groff groff-base
need_command cmake cmake

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
# passes NAME COMMAND..: what it says is shown if it fails.
passes() {
    timeout 1200 "${@:2}" >"$out/log" 2>&1 || { cat "$out/log" && fail "$1 ended with an error"; }
    echo "passed: $1"
}
# What the recipes build, as a release has it: where there is no git, and beside a program of which it is a
# subproject of Meson's.
program=$out/program tree=$out/program/subprojects/tickless
mkdir -p "$tree"
git ls-files -z | xargs -0 cp --parents -P -t "$tree"
readme c >"$program/example.c"
readme meson >"$program/meson.build"
packaging=$tree/crates/capi/packaging
export CARGO_TARGET_DIR=$PWD/target

# What is installed, found by pkg-config, in an environment that has no Rust.
crates/capi/install.sh "$out/prefix" --dev
without_rust
passes "Meson with what is installed" "${bare[@]}" "
    meson setup --wrap-mode=nofallback '$program' '$out/readme'
    ninja -C '$out/readme'
    '$out/readme/example'
    meson setup --werror '$tree/crates/capi/examples' '$out/examples'
    meson test -C '$out/examples'"

# Debian's packages, taken apart, are a prefix; lintian finds nothing.
passes "Debian's packages" env DEB_BUILD_OPTIONS=noopt "$packaging/deb.sh" "$out/deb"
for package in "$out"/deb/*.deb; do
    dpkg-deb --extract "$package" "$out/debian"
done
config=$(dirname "$(find "$out/debian" -name tickless.pc)")
read -ra line < <(PKG_CONFIG_PATH=$config pkg-config --cflags --libs tickless)
cc "$program/example.c" "${line[@]}" -o "$out/packaged"
passes "a program with Debian's packages" env "LD_LIBRARY_PATH=${config%/*}" "$out/packaged"
if has_command lintian lintian; then
    # An archive that is not optimized has sections for debuggers; there is no address to write to, which
    # is for a maintainer.
    lintian --display-info --pedantic --fail-on error,warning,info,pedantic --suppress-tags \
        bogus-mail-host,bogus-mail-host-in-debian-changelog,unstripped-static-library "$out"/deb/*.changes
else
    leave_out "lintian"
fi

cp -r "$packaging"/meson/* "$program/subprojects"
cp "$packaging/meson/packagefiles/tickless/meson.build" "$tree"
meson setup "$program" "$out/sub" --wrap-mode=forcefallback >"$out/log" || fail "$(<"$out/log")"
passes "Meson with the subproject" ninja -C "$out/sub"
passes "a program with the subproject" "$out/sub/example"

if python3 -m venv "$out/venv" && "$out/venv/bin/pip" install --quiet conan; then
    export CONAN_HOME=$out/conan
    cp -r crates/capi/packaging/conan/test_package "$out"
    passes "Conan's profile" "$out/venv/bin/conan" profile detect
    for shared in False True; do
        passes "Conan, shared: $shared" "$out/venv/bin/conan" create crates/capi/packaging/conan -s build_type=Debug \
            --test-folder "$out/test_package" -o "tickless/*:shared=$shared"
    done
else
    leave_out "conan"
fi

# By the scripts of a checkout of vcpkg's, without its own program, which is no package of Debian's or PyPI's.
[ -n "${VCPKG_ROOT:-}" ] || { leave_out "vcpkg: set VCPKG_ROOT to a checkout of it" && exit; }
need_command patchelf patchelf
passes "vcpkg's port" cmake -DCMD=BUILD -DPORT=tickless -DVERSION=0 -DFEATURES=core \
    "-DCURRENT_PORT_DIR=$packaging/vcpkg/tickless" -DTARGET_TRIPLET=x64-linux -D_HOST_TRIPLET=x64-linux \
    "-DTARGET_TRIPLET_FILE=$VCPKG_ROOT/triplets/x64-linux.cmake" "-DVCPKG_ROOT_DIR=$VCPKG_ROOT" \
    "-DPACKAGES_DIR=$out/vcpkg" "-DBUILDTREES_DIR=$out/trees" "-D_VCPKG_INSTALLED_DIR=$out/installed" \
    "-DDOWNLOADS=$out/downloads" -DVCPKG_BASE_VERSION=2026-01-01 -DVCPKG_CONCURRENCY=1 \
    "-DVCPKG_PORT_CONFIGS=$VCPKG_ROOT/ports/vcpkg-cmake-config/vcpkg-port-config.cmake" \
    "-DPATCHELF=$(command -v patchelf)" -P "$VCPKG_ROOT/scripts/ports.cmake"
readme cmake >"$program/CMakeLists.txt"
cmake -S "$program" -B "$out/cmake" "-DCMAKE_PREFIX_PATH=$out/vcpkg/tickless_x64-linux"
passes "CMake with vcpkg's package" cmake --build "$out/cmake"
passes "a program with vcpkg's package" "$out/cmake/example"
