#!/usr/bin/env bash
# The packages of the C library (crates/capi/packaging): a prefix with nothing but what was installed builds the
# examples by Meson; so do Meson's subproject, Debian's packages and Conan's, each with a program that
# runs. vcpkg's port is read, since vcpkg itself comes from elsewhere.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

LIMIT=1200
need_command meson meson ninja-build
need_command pkg-config pkg-config
need_command dpkg-buildpackage dpkg-dev
need_command dh debhelper
need_command doxygen doxygen
need_command groff groff-base

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT

# What is installed, found by pkg-config, in an environment that has no Rust.
crates/capi/install.sh "$out/prefix" --dev
mkdir "$out/bin"
for command in sh cc ar as ld pkg-config meson ninja python3; do
    ln -s "$(command -v "$command")" "$out/bin/$command"
done
cp -r crates/capi/examples "$out/examples"
mkdir "$out/readme"
readme c >"$out/readme/example.c"
readme meson >"$out/readme/meson.build"
for project in examples readme; do
    timeout "$LIMIT" env -i "PATH=$out/bin" "PKG_CONFIG_PATH=$out/prefix/lib/pkgconfig" LC_ALL=C.UTF-8 \
        sh -euc "if command -v cargo; then exit 1; fi
            cd '$out/$project'
            meson setup build
            ninja -C build" >"$out/log" 2>&1 || { cat "$out/log" && fail "Meson does not build $project"; }
    echo "passed: Meson with what is installed, $project"
done
(cd "$out/examples" && meson test -C build >"$out/log" 2>&1) || { cat "$out/log" && fail "an example fails"; }
(cd "$out/readme" && build/example) || fail "the README's project does not run"

# As a subproject: a copy of the tracked files stands for what the wrap fetches.
program=$out/program tree=$out/program/subprojects/tickless
mkdir -p "$tree"
cp "$out/readme"/{example.c,meson.build} "$program"
git ls-files -z | xargs -0 cp --parents -P -t "$tree"
cp -r crates/capi/packaging/meson/* "$program/subprojects"
cp "$program/subprojects/packagefiles/tickless/meson.build" "$tree"
(
    cd "$program"
    meson setup build --wrap-mode=forcefallback
    CARGO_TARGET_DIR=$OLDPWD/target ninja -C build
) >"$out/log" 2>&1 || { cat "$out/log" && fail "Meson does not build the subproject"; }
"$program/build/example" || fail "the program with the subproject does not run"
echo "passed: Meson with the subproject"

# Debian's packages, taken apart, are a prefix; lintian finds nothing.
# From a release that is unpacked where there is no git.
mkdir "$out/release"
git ls-files -z | xargs -0 cp --parents -P -t "$out/release"
(
    target=$PWD/target
    cd "$out/release"
    DEB_BUILD_OPTIONS=noopt CARGO_TARGET_DIR=$target crates/capi/packaging/deb.sh "$out/deb"
) >"$out/log" 2>&1 || { cat "$out/log" && fail "the Debian packages are not built"; }
for package in "$out"/deb/*.deb; do
    dpkg-deb --extract "$package" "$out/debian"
done
config=$(find "$out/debian" -name tickless.pc)
libdir=$(dirname "$(dirname "$config")")
read -ra line < <(PKG_CONFIG_PATH=${config%/*} pkg-config --cflags --libs tickless)
cc "$out/readme/example.c" "${line[@]}" -o "$out/packaged"
LD_LIBRARY_PATH=$libdir "$out/packaged" || fail "a program with the Debian packages does not run"
if has_command lintian lintian; then
    # An archive that is not optimized has sections for debuggers; there is no address to write to, which
    # is for a maintainer.
    tags=bogus-mail-host,bogus-mail-host-in-debian-changelog,unstripped-static-library
    lintian --display-info --pedantic --fail-on error,warning,info,pedantic --suppress-tags "$tags" \
        "$out"/deb/*.changes
else
    leave_out "lintian"
fi
echo "passed: Debian's packages"

# Conan, in an environment of its own.
need_command cmake cmake
if python3 -m venv "$out/venv" && "$out/venv/bin/pip" install --quiet conan; then
    export CONAN_HOME=$out/conan
    conan=$out/venv/bin/conan
    {
        "$conan" profile detect
        for shared in False True; do
            CARGO_TARGET_DIR=$PWD/target "$conan" create crates/capi/packaging/conan -s build_type=Debug \
                -o "tickless/*:shared=$shared"
        done
    } >"$out/log" 2>&1 || { cat "$out/log" && fail "Conan does not build the package"; }
    rm -rf crates/capi/packaging/conan/test_package/build crates/capi/packaging/conan/test_package/CMakeUserPresets.json
    echo "passed: Conan"
else
    leave_out "conan"
fi

# vcpkg's port: where VCPKG_ROOT names a checkout of vcpkg's, it is built by the scripts there, without
# vcpkg's own program, which is no package of Debian's or PyPI's. Else its JSON and its code are read, with
# vcpkg's functions replaced.
port=$PWD/crates/capi/packaging/vcpkg/tickless
python3 -m json.tool "$port/vcpkg.json" >/dev/null
if [ -n "${VCPKG_ROOT:-}" ]; then
    need_command patchelf patchelf
    helper=$VCPKG_ROOT/ports/vcpkg-cmake-config/vcpkg-port-config.cmake
    CARGO_TARGET_DIR=$PWD/target cmake -DCMD=BUILD -DPORT=tickless -DVERSION=0 -DFEATURES=core \
        "-DCURRENT_PORT_DIR=$port" -DTARGET_TRIPLET=x64-linux -D_HOST_TRIPLET=x64-linux \
        "-DTARGET_TRIPLET_FILE=$VCPKG_ROOT/triplets/x64-linux.cmake" "-DVCPKG_ROOT_DIR=$VCPKG_ROOT" \
        "-DPACKAGES_DIR=$out/vcpkg" "-DBUILDTREES_DIR=$out/trees" "-D_VCPKG_INSTALLED_DIR=$out/installed" \
        "-DDOWNLOADS=$out/downloads" -DVCPKG_BASE_VERSION=2026-01-01 -DVCPKG_CONCURRENCY=1 \
        "-DVCPKG_PORT_CONFIGS=$helper" "-DPATCHELF=$(command -v patchelf)" -P "$VCPKG_ROOT/scripts/ports.cmake" >"$out/log" 2>&1 || {
        cat "$out/log"
        fail "vcpkg's port is not built"
    }
    readme cmake >"$out/readme/CMakeLists.txt"
    (cd "$out/readme" && cmake -S . -B vcpkg "-DCMAKE_PREFIX_PATH=$out/vcpkg/tickless_x64-linux" &&
        cmake --build vcpkg && vcpkg/example) || fail "a program with vcpkg's package does not run"
    echo "passed: vcpkg's port, by vcpkg's scripts"
    exit
fi
cat >"$out/port.cmake" <<'EOF'
foreach(name add_to_path execute_required_process cmake_config_fixup replace_string fixup_pkgconfig install_copyright)
    function(vcpkg_${name})
        message(STATUS "vcpkg_${name} ${ARGN}")
    endfunction()
endforeach()
set(CURRENT_PACKAGES_DIR "${OUT}/vcpkg")
set(TARGET_TRIPLET x64-linux)
include("${PORT}")
if(NOT EXISTS "${SOURCE_PATH}/crates/capi/install.sh")
    message(FATAL_ERROR "the port does not find the repository: ${SOURCE_PATH}")
endif()
EOF
cmake -DOUT="$out" -DPORT="$port/portfile.cmake" -P "$out/port.cmake"
leave_out "vcpkg: set VCPKG_ROOT to a checkout of it; the port was read, and not built"
