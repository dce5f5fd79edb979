#!/usr/bin/env bash
# The C API (crates/capi/): the header is that of the crate; what install.sh installs is complete, is found by
# pkg-config and is left by an uninstall; the programs of crates/capi/tests pass with gcc; the README's lines
# compile without Rust. LONG=1 goes on with clang, later standards, AddressSanitizer, ThreadSanitizer,
# valgrind, the reference and static links. An argument is how often a thread of race.c frees after a wait.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Seconds after which a program hangs.
LIMIT=${LONG:+20000}
LIMIT=${LIMIT:-1200}
RACES=${1:-${LONG:+500000}}
RACES=${RACES:-10000}

need_command cc gcc
need_command c++ g++
need_command pkg-config pkg-config
c_compilers=(gcc) cpp_compilers=(g++)
if [ -n "${LONG:-}" ]; then
    need_command clang clang
    need_command doxygen doxygen
    need_command groff groff-base
    need_command valgrind valgrind
    c_compilers+=(clang) cpp_compilers+=(clang++)
fi

# (In the gate, ci/test.sh has these.)
[ -z "${LONG:-}" ] || some_tests cargo test -p tickless-c

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
installer=$PWD/crates/capi/install.sh
# A relative prefix is the caller's. Moved, it still finds itself. A second time changes nothing.
(cd "$out" && "$installer" first --dev)
mv "$out/first" "$out/prefix"
files() {
    (cd "$1" && find . ! -type d | LC_ALL=C sort)
}
before=$(files "$out/prefix")
"$installer" "$out/prefix" --dev
[ "$(files "$out/prefix")" = "$before" ] || fail "a second install made other files"
DESTDIR="$out/a package" "$installer" /usr --dev
[ "$(files "$out/a package/usr")" = "$before" ] || fail "with DESTDIR, other files are installed"
DESTDIR="$out/a package" "$installer" /usr --uninstall
[ -z "$(files "$out/a package")" ] || fail "an uninstall left $(files "$out/a package")"
for wrong in "" "--dev" "$out/prefix --release"; do
    # shellcheck disable=SC2086
    refused usage: "$installer" $wrong
done
# The library's name is that of its interface, and it exports nothing else.
declared=$(grep -o '\btickless_[a-z_0-9]*(' crates/capi/include/tickless.h | tr -d '(' | LC_ALL=C sort -u)
soname=libtickless.so.$(sed -n 's/^#define TICKLESS_ABI_VERSION //p' crates/capi/include/tickless.h)
LC_ALL=C readelf -d "$out/prefix/lib/libtickless.so" | grep -qF "soname: [$soname]" ||
    fail "the shared library is not named $soname"
abi=${soname##*.}
exported=$(nm -D --defined-only "$out/prefix/lib/libtickless.so" | awk '{ print $3 }' |
    sed -n "s/@@TICKLESS_$abi\$//p" | LC_ALL=C sort)
[ "$exported" = "$declared" ] ||
    fail "exported and declared differ: $(diff <(echo "$exported") <(echo "$declared"))"
others=$(nm -D --defined-only "$out/prefix/lib/libtickless.so" | grep -c -v "@@TICKLESS_$abi\$" || true)
[ "$others" = 1 ] || fail "the shared library exports more than its names and their version"
global=$(nm -g --defined-only "$out/prefix/lib/libtickless.a" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort)
[ "$global" = "$declared" ] ||
    fail "global in the archive and declared differ: $(diff <(echo "$global") <(echo "$declared"))"
export PKG_CONFIG_PATH=$out/prefix/lib/pkgconfig LD_LIBRARY_PATH=$out/prefix/lib
read -ra flags < <(pkg-config --cflags tickless)
read -ra libs < <(pkg-config --libs tickless)
archive=("$out/prefix/lib/libtickless.a" -lm -ldl)
strict=(-Wall -Wextra -Wpedantic -Werror -g -O1)
c=(-std=c99 -D_POSIX_C_SOURCE=200809L -pthread "${strict[@]}" "${flags[@]}")
cpp=(-std=c++17 -pthread "${strict[@]}" -Wold-style-cast "${flags[@]}")

# run NAME COMMAND..
run() {
    local name=$1 report
    shift
    report=$(timeout "$LIMIT" "$@" 2>&1) || {
        echo "$report" >&2
        fail "$name ended with an error"
    }
    echo "passed: $name ($(grep -c '^ok ' <<<"$report" || true) tests)"
}

for compiler in "${c_compilers[@]}"; do
    for source in crates/capi/tests/c/*.c; do
        name=$(basename "$source" .c)
        program=$out/$name.$compiler
        linked=("${libs[@]}") argument=$RACES
        # Two load the library themselves, the second beside a copy of its own, whose names it exports.
        case $name in
        unload) linked=(-ldl) argument=$out/prefix/lib/libtickless.so.1 ;;
        copies) linked=("${archive[@]}" -Wl,--export-dynamic) argument=$out/prefix/lib/libtickless.so.1 ;;
        esac
        "$compiler" "${c[@]}" "$source" "${linked[@]}" -o "$program"
        run "$name, $compiler" "$program" "$argument"
    done
done
for compiler in "${cpp_compilers[@]}"; do
    for source in crates/capi/tests/cpp/*.cpp; do
        name=$(basename "$source" .cpp)
        # (Of coroutines, g++ makes code with zeroes.)
        [ "$name" = coroutine ] && standard=(-std=c++20) || standard=(-Wzero-as-null-pointer-constant)
        "$compiler" "${cpp[@]}" "${standard[@]}" "$source" "${libs[@]}" -o "$out/$name.$compiler"
        run "$name, $compiler" "$out/$name.$compiler"
    done
done

# The archive beside that of another library of Rust's.
echo '#[unsafe(no_mangle)] pub extern "C" fn other() -> i32 { format!("{}", 7).len() as i32 }' |
    rustc --edition 2024 --crate-type staticlib --crate-name other - -o "$out/libother.a"
echo '#include <tickless.h>
int other(void);
int main(void) { return other() == 1 && tickless_abi_version() > 0 ? 0 : 1; }' >"$out/both.c"
for order in "libtickless.a libother.a" "libother.a libtickless.a"; do
    read -r first second <<<"$order"
    gcc "${c[@]}" "$out/both.c" -L"$out/prefix/lib" -L"$out" "-l:$first" "-l:$second" -lm -ldl -o "$out/both"
    run "$first, then $second" "$out/both"
done

for compiler in "${c_compilers[@]}"; do
    "$compiler" "${c[@]}" crates/capi/examples/echo.c "${libs[@]}" -o "$out/echo.$compiler"
done
run "the echo server" "$out/echo.gcc"
gcc "${c[@]}" crates/capi/examples/partitions.c -o "$out/partitions"
run "the timers of partitions" "$out/partitions" 200

# The README's examples, compiled by its own lines with a compiler, pkg-config and what was installed:
# without Rust, in another folder.
mkdir "$out/bin" "$out/readme"
readme c >"$out/readme/example.c"
readme cpp >"$out/readme/example.cpp"
readme "c wheel" >"$out/readme/wheel.c"
readme "cpp wheel" >"$out/readme/wheel.cpp"
need_command cmake cmake
for command in sh cc c++ as ld pkg-config cmake make; do
    ln -s "$(command -v "$command")" "$out/bin/$command"
done
bare=(env -i "PATH=$out/bin" "PKG_CONFIG_PATH=$PKG_CONFIG_PATH" "LD_LIBRARY_PATH=$LD_LIBRARY_PATH")
for compile in "cc example.c " "c++ -std=c++17 example.cpp "; do
    line=$(readme text | grep -F "$compile\$(pkg-config")
    run "the README's line: $line" env --chdir "$out/readme" "${bare[@]}" \
        sh -euc "if command -v cargo || command -v rustc; then exit 1; fi; $line; ./example"
done

readme "c batch" >"$out/readme/batch.c"
gcc "${c[@]}" "$out/readme/batch.c" "${libs[@]}" -o "$out/batch"
run "the README's batch" "$out/batch"

# The wheel needs no library, and no other header of ours.
for compile in "cc -std=c99 -D_POSIX_C_SOURCE=200809L wheel.c" "c++ -std=c++17 wheel.cpp"; do
    mkdir -p "$out/alone"
    cp crates/capi/include/tickless_wheel.* "$out/alone"
    run "the README's wheel: $compile" env --chdir "$out/readme" "${bare[@]}" \
        sh -euc "$compile -Wall -Wextra -Wpedantic -Werror -I '$out/alone' -o wheel; ./wheel"
done
read -ra wheel < <(pkg-config --cflags --libs tickless-wheel)
[ "${wheel[*]}" = "-I$out/prefix/lib/pkgconfig/../../include" ] || fail "pkg-config says of the wheel: ${wheel[*]}"
# What cannot work says so in words.
for header in tickless_wheel.hpp tickless.hpp; do
    refused "needs C++17" g++ -std=c++14 "${flags[@]}" -fsyntax-only -x c++ - <<<"#include <$header>"
done

for gone in __LP64__ __linux__; do
    refused "tickless is for 64-bit Linux" gcc "${flags[@]}" "-U$gone" -fsyntax-only -x c - <<<"#include <tickless.h>"
done
# A timer that is pending is not added again, unnoticed.
echo '#include <tickless_wheel.h>
int main(void) {
    static struct tickless_wheel wheel;
    static struct tickless_wheel_timer timer;
    tickless_wheel_add(&wheel, &timer, 7);
    tickless_wheel_add(&wheel, &timer, 8);
}' >"$out/twice.c"
gcc "${c[@]}" "$out/twice.c" -o "$out/twice"
refused "timer->place == " "$out/twice"
# A result that tells whether there is a timer cannot be dropped by accident.
refused unused-result gcc "${c[@]}" -c -o /dev/null -x c - <<<'#include <tickless.h>
    void f(tickless_engine *engine) { tickless_schedule(engine, 1, 0, 0, 0, 0); }'

# The same by CMake: the README's project, with the shared library, the static one, and the wheel, which needs
# neither.
for target in tickless static wheel; do
    project=$out/cmake.$target source=example.c
    [ "$target" != wheel ] || source=wheel.c
    mkdir "$project"
    cp "$out/readme/$source" "$project/example.c"
    readme cmake | sed "s/tickless::tickless/tickless::$target/" >"$project/CMakeLists.txt"
    run "the README's project, tickless::$target" env --chdir "$project" -i "PATH=$out/bin" sh -euc "
        cmake -S . -B build -DCMAKE_PREFIX_PATH='$out/prefix'
        cmake --build build
        build/example"
done
if readelf -d "$out/cmake.wheel/build/example" | grep -F tickless; then
    fail "a program with the wheel alone needs the library"
fi

[ -n "${LONG:-}" ] || exit 0

# A target that the environment names is where cargo puts the archive, and an old one is not taken.
of_target() {
    find "target/$(host)/debug" -name 'libtickless_c*.a' "$@"
}
[ ! -d "target/$(host)/debug" ] || of_target -delete
CARGO_BUILD_TARGET=$(host) LIBDIR=lib/there "$installer" "$out/named" --dev
[ -n "$(of_target)" ] || fail "install.sh did not build for the target that the environment names"
[ -e "$out/named/lib/there/libtickless.so" ] || fail "install.sh does not know LIBDIR"
PKG_CONFIG_PATH=$out/named/lib/there/pkgconfig pkg-config --libs tickless |
    grep -qF -- "-L$out/named/lib/there/pkgconfig/../../../lib/there" ||
    fail "pkg-config does not find what LIBDIR has moved"

# The reference is made from the header, where everything has to be described.
DESTDIR="$out/a package" crates/capi/reference.sh /usr
of_others=$(grep -oh '^static inline.*\|^tickless_wheel_[a-z_]*(' crates/capi/include/tickless_{wheel,post}.h |
    grep -o 'tickless_[a-z_]*[a-z](' | tr -d '(')
for name in $declared $of_others; do
    grep -q "^$name .- " "$out/a package/usr/share/man/man3/$name.3" || fail "$name has no man page of its own"
done
DESTDIR="$out/a package" "$installer" /usr --uninstall
[ -z "$(files "$out/a package")" ] || fail "an uninstall left $(files "$out/a package")"

# What a user's flags may be: later standards, no exceptions, hidden names, warnings of other kinds.
for compiler in g++ clang++; do
    for standard in c++17 c++20 c++2b; do
        for more in -fexceptions "-fno-exceptions -fno-rtti"; do
            # shellcheck disable=SC2086
            "$compiler" "${cpp[@]}" -std=$standard $more -Wshadow -fvisibility=hidden \
                -fsyntax-only -x c++ - <<<'#include <tickless.hpp>
                int main() {
                    tickless::engine engine;
                    return engine.schedule(std::chrono::hours(1), [] {}).cancel() ? 0 : 1;
                }'
        done
    done
done

# With the static library. The programs are instrumented, and what both allocate and free is watched.
# (The library as such is tested with AddressSanitizer by ci/asan.sh.)
asan=(-fsanitize=address,undefined -fno-sanitize-recover=all)
for name in timers calls threads driven process misuse race published contended restart repeating scope batch wheel \
    wheel_model post; do
    gcc "${c[@]}" "${asan[@]}" "crates/capi/tests/c/$name.c" "${archive[@]}" -o "$out/$name.asan"
    run "$name, AddressSanitizer" "$out/$name.asan" "$RACES"
done
for name in wrapper scope wheel; do
    g++ "${cpp[@]}" "${asan[@]}" "crates/capi/tests/cpp/$name.cpp" "${archive[@]}" -o "$out/$name.asan"
    run "$name.cpp, AddressSanitizer" "$out/$name.asan"
done
if [ -e /usr/include/asio.hpp ] || has_command asio.hpp libasio-dev; then
    # (asio's own code is not free of warnings.)
    g++ "${cpp[@]}" -std=c++20 "${asan[@]}" -Wno-maybe-uninitialized -I crates/capi/tests/cpp crates/capi/tests/asio.cpp \
        "${archive[@]}" -o "$out/asio.asan"
    run "asio.cpp, AddressSanitizer" "$out/asio.asan"
    g++ "${cpp[@]}" -std=c++20 -Wshadow -fsyntax-only -x c++ - <<<'#include <tickless_asio.hpp>'
else
    leave_out "asio.cpp, whose headers could not be installed"
fi
# A mistake is noticed: the same program, which does not wait.
sed 's/tickless_timer_cancel_wait(&object->timer, TICKLESS_NEVER)/tickless_timer_cancel(\&object->timer)/
    s/CHECK(object->owned == NULL.*//; s/CHECK(count_now(&released).*//' \
    crates/capi/tests/c/race.c >"$out/no_wait.c"
gcc "${c[@]}" "${asan[@]}" -I crates/capi/tests/c "$out/no_wait.c" "${archive[@]}" -o "$out/no_wait"
refused heap-use-after-free timeout "$LIMIT" "$out/no_wait" 100000
echo "finds a free without a wait"

# With a library that is instrumented, and the compiler's own runtime.
runtimes=$(rustc --print sysroot)/lib/rustlib/$(host)/lib
# instrument NAME SANITIZER [CFG..]
instrument() {
    export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=target/$1 CARGO_PROFILE_DEV_STRIP=none
    export RUSTFLAGS="-Zsanitizer=$2 -Cunsafe-allow-abi-mismatch=sanitizer ${*:3}"
    cargo rustc --locked --package tickless-c --crate-type staticlib --target "$(host)"
}
(instrument tsan thread --cfg tsan)
(instrument asan address --cfg asan)
# instrumented SANITIZER NAME COMPILER SOURCE [OPTION..]
instrumented() {
    local short=${1:0:1}san library runtime
    library=target/$short/$(host)/debug/libtickless_c.a
    runtime=$runtimes/librustc-stable_rt.$short.a
    "$3" "${@:5}" -fsanitize="$1" -I crates/capi/tests/c -c "$4" -o "$out/$2.$short.o"
    "$3" -no-pie "$out/$2.$short.o" "$library" -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive \
        -Wl,--export-dynamic -lstdc++ -pthread -ldl -lm -lrt -o "$out/$2.$short"
}
need_command llvm-symbolizer llvm
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp"
instrumented thread wrapper clang++ crates/capi/tests/cpp/wrapper.cpp "${cpp[@]}"
run "wrapper, ThreadSanitizer" "$out/wrapper.tsan"
for name in threads driven race published contended repeating scope batch; do
    instrumented thread "$name" clang "crates/capi/tests/c/$name.c" "${c[@]}"
    run "$name, ThreadSanitizer" "$out/$name.tsan" "$((RACES / 100))"
done
for name in threads race published contended restart repeating scope batch; do
    instrumented address "$name" clang "crates/capi/tests/c/$name.c" "${c[@]}"
    run "$name, AddressSanitizer in the library too" "$out/$name.asan" "$((RACES / 10))"
done
for name in inside coroutine scope; do
    instrumented address "$name" clang++ "crates/capi/tests/cpp/$name.cpp" "${cpp[@]}" -std=c++20
    run "$name, AddressSanitizer in the library too" "$out/$name.asan"
done
instrumented thread no_wait clang "$out/no_wait.c" "${c[@]}"
refused 'ThreadSanitizer: ' timeout "$LIMIT" "$out/no_wait.tsan" 100000
echo "finds it as a race, too"

# With a library that is not instrumented, for which the wrapper speaks, and what is installed for checkers.
g++ "${cpp[@]}" -std=c++20 -fsanitize=thread crates/capi/tests/cpp/annotated.cpp "${libs[@]}" -o "$out/annotated.tsan"
run "annotated, ThreadSanitizer" env "TSAN_OPTIONS=suppressions=$out/prefix/share/tickless/tsan.supp" \
    "$out/annotated.tsan"
# What sends work is a header, and so instrumented.
gcc "${c[@]}" -fsanitize=thread crates/capi/tests/c/post.c "${libs[@]}" -o "$out/post.tsan"
run "post, ThreadSanitizer" "$out/post.tsan" "$RACES"
# A race of the program's own is still seen.
sed 's|timer.cancel_wait();|local.uses++;|' crates/capi/tests/cpp/annotated.cpp >"$out/racing.cpp"
g++ "${cpp[@]}" -fsanitize=thread "$out/racing.cpp" "${libs[@]}" -o "$out/racing.tsan"
refused 'WARNING: ThreadSanitizer: data race' \
    env "TSAN_OPTIONS=suppressions=$out/prefix/share/tickless/tsan.supp" "$out/racing.tsan"
echo "finds a race of the program's own"
for tool in memcheck helgrind; do
    gcc -g "$out/readme/example.c" "${flags[@]}" "${libs[@]}" -pthread -o "$out/example"
    more=()
    [ $tool = helgrind ] || more=(--leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=all)
    run "the README's example, $tool" valgrind --quiet --error-exitcode=9 "--tool=$tool" "${more[@]}" \
        "--suppressions=$out/prefix/share/tickless/valgrind.supp" "$out/example"
done

valgrind=(valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite --fair-sched=yes)
for name in calls driven misuse restart repeating batch wheel race scope; do
    run "$name, valgrind" "${valgrind[@]}" "$out/$name.gcc" "$((RACES / 1000))"
done

# Statically, from a copy without the shared library, in a folder whose name has a space (which
# pkg-config escapes): with the C library as a shared one, in a program that loads nothing, and in one
# that is optimized as a whole by a compiler which does not know Rust's bitcode.
copy="$out/a copy"
cp -r "$out/prefix" "$copy"
rm "$copy"/lib/libtickless.so*
line=$(PKG_CONFIG_PATH="$copy/lib/pkgconfig" pkg-config --static --cflags --libs tickless)
for compiler in gcc clang; do
    for more in "" -flto -static; do
        # Of the C library, Rust's also uses what needs shared libraries: the linker warns.
        eval "$compiler $more '$out/readme/example.c' $line -o '$out/static'" ||
            fail "$compiler $more does not link the archive"
        if readelf -d "$out/static" | grep -qF libtickless; then
            fail "the shared library is linked"
        fi
        run "the README's example, linked statically ($compiler $more)" "$out/static"
    done
done

# What is measured runs to its end, with each contender.
pkg-config --exists libuv libevent && [ -e /usr/include/ev.h ] ||
    need_command uv.h libuv1-dev libevent-dev libev-dev
# The loops of other libraries.
for loop in edge threads uv ev; do
    library=()
    [ $loop = edge ] || [ $loop = threads ] || library=("-l$loop")
    # (libev's macros break the rules of aliasing.)
    gcc "${c[@]}" -Wno-strict-aliasing "crates/capi/examples/loop_$loop.c" "${libs[@]}" "${library[@]}" \
        -o "$out/loop_$loop"
    run "the loop of $loop" "$out/loop_$loop"
done

for study in run loop stall; do
    env -u LD_LIBRARY_PATH -u PKG_CONFIG_PATH timeout "$LIMIT" "crates/capi/bench/$study.sh" --quick ||
        fail "crates/capi/bench/$study.sh does not run"
done
