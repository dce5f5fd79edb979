#!/usr/bin/env bash
# The C API (crates/capi/): the header is that of the crate; what install.sh installs is complete, is found by
# pkg-config and is left by an uninstall; the programs of crates/capi/tests pass with gcc; the README's lines
# compile without Rust. LONG=1 goes on with clang, later standards, AddressSanitizer, ThreadSanitizer,
# valgrind, the reference and static links. An argument is how often a thread of race.c frees after a wait.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# In the gate, ci/clippy.sh has the same build.
[ -n "${LONG:-}" ] || with_lints
# LIMIT: seconds after which a program hangs.
LIMIT=1200 RACES=${1:-3000}
need_command cc gcc
need_command c++ g++
need_command pkg-config pkg-config
need_command cmake cmake
# (Another version may write the header in another way.)
need_exactly cbindgen 0.29.4
declare -A compilers=([gcc]=g++)
if [ -n "${LONG:-}" ]; then
    LIMIT=20000 RACES=${1:-500000}
    need_command clang clang
    need_command doxygen doxygen
    need_command groff groff-base
    need_command valgrind valgrind
    compilers[clang]=clang++
    # (In the gate, ci/test.sh has these.)
    some_tests cargo test -p tickless-c
fi

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
header=crates/capi/include/tickless.h installer=$PWD/crates/capi/install.sh
(cd crates/capi && cbindgen --quiet --config cbindgen.toml) | diff "$header" - ||
    fail "the header is not that of the crate: crates/capi/README.md tells how it is made"
# A relative prefix is the caller's. Moved, it still finds itself. A second time changes nothing, nor does DESTDIR.
(cd "$out" && "$installer" first --dev)
mv "$out/first" "$out/prefix"
files() {
    (cd "$1" && find . ! -type d | LC_ALL=C sort)
}
files "$out/prefix" >"$out/files"
"$installer" "$out/prefix" --dev
DESTDIR="$out/a package" "$installer" /usr --dev
for installed in "$out/prefix" "$out/a package/usr"; do
    files "$installed" | diff "$out/files" - || fail "other files are in $installed"
done
uninstalled() {
    DESTDIR="$out/a package" "$installer" /usr --uninstall
    [ -z "$(files "$out/a package")" ] || fail "an uninstall left $(files "$out/a package")"
}
uninstalled
for wrong in "" "--dev" "$out/prefix --release"; do
    # shellcheck disable=SC2086
    refused usage: "$installer" $wrong
done
# The library's name is that of its interface, and it exports what the header declares, and nothing else.
abi=$(sed -n 's/^#define TICKLESS_ABI_VERSION //p' "$header")
LC_ALL=C readelf -d "$out/prefix/lib/libtickless.so" | grep -qF "soname: [libtickless.so.$abi]" ||
    fail "the shared library has another name"
mapfile -t declared < <(grep -o '\btickless_[a-z_0-9]*(' "$header" | tr -d '(' | LC_ALL=C sort -u)
globals() {
    nm --defined-only "$@" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort
}
globals -D "$out/prefix/lib/libtickless.so" | grep -vx "TICKLESS_$abi" |
    diff <(printf "%s@@TICKLESS_$abi\n" "${declared[@]}") - || fail "declared and exported differ"
globals -g "$out/prefix/lib/libtickless.a" | diff <(printf '%s\n' "${declared[@]}") - ||
    fail "declared and global in the archive differ"

export PKG_CONFIG_PATH=$out/prefix/lib/pkgconfig LD_LIBRARY_PATH=$out/prefix/lib
read -ra flags < <(pkg-config --cflags tickless)
read -ra libs < <(pkg-config --libs tickless)
archive=("$out/prefix/lib/libtickless.a" -lm -ldl)
strict=(-pthread -Wall -Wextra -Wpedantic -Werror -O1 ${LONG:+-g} -I crates/capi/tests/c "${flags[@]}")
c=(-std=c99 -D_POSIX_C_SOURCE=200809L "${strict[@]}")
cpp=(-std=c++17 -Wold-style-cast "${strict[@]}")

# run NAME COMMAND..
run() {
    local report
    report=$(timeout "$LIMIT" "${@:2}" 2>&1) || fail "$1 ended with an error: $report"
    echo "passed: $1 ($(grep -c '^ok ' <<<"$report" || true) tests)"
}

for compiler in "${!compilers[@]}"; do
    for source in crates/capi/tests/c/*.c crates/capi/examples/{echo,partitions}.c; do
        name=$(basename "$source" .c)
        linked=("${libs[@]}") argument=$RACES
        # Two load the library themselves, the second beside a copy of its own, whose names it exports.
        case $name in
            unload) linked=(-ldl) argument=$out/prefix/lib/libtickless.so.1 ;;
            copies) linked=("${archive[@]}" "-Wl,--export-dynamic") argument=$out/prefix/lib/libtickless.so.1 ;;
            echo) argument=3000 ;;
            partitions) linked=() argument=200 ;;
        esac
        "$compiler" "${c[@]}" "$source" "${linked[@]}" -o "$out/$name.$compiler"
        run "$name, $compiler" "$out/$name.$compiler" "$argument"
    done
    for source in crates/capi/tests/cpp/*.cpp; do
        name=$(basename "$source" .cpp)
        # (Of coroutines, g++ makes code with zeroes.)
        [ "$name" = coroutine ] && standard=(-std=c++20) || standard=(-Wzero-as-null-pointer-constant)
        "${compilers[$compiler]}" "${cpp[@]}" "${standard[@]}" "$source" "${libs[@]}" -o "$out/$name.cpp"
        run "$name.cpp, $compiler" "$out/$name.cpp"
    done
done

# The archive beside that of another library of Rust's.
echo '#[unsafe(no_mangle)] pub extern "C" fn other() -> i32 { format!("{}", 7).len() as i32 }' |
    rustc --edition 2024 --crate-type staticlib --crate-name other - -o "$out/libother.a"
echo '#include <tickless.h>
int other(void);
int main(void) { return other() == 1 && tickless_abi_version() > 0 ? 0 : 1; }' >"$out/both.c"
for order in "-l:libtickless.a -l:libother.a" "-l:libother.a -l:libtickless.a"; do
    # shellcheck disable=SC2086
    gcc "${c[@]}" "$out/both.c" -L"$out/prefix/lib" -L"$out" $order -lm -ldl -o "$out/both"
    run "$order" "$out/both"
done

# The README's examples, compiled by its own lines with a compiler, pkg-config or CMake and what was installed:
# without Rust, in another folder.
mkdir "$out/readme" "$out/alone"
readme c >"$out/readme/example.c"
readme cpp >"$out/readme/example.cpp"
readme "c wheel" >"$out/readme/wheel.c"
readme "cpp wheel" >"$out/readme/wheel.cpp"
readme "c batch" >"$out/readme/batch.c"
without_rust
for compile in "cc example.c " "c++ -std=c++17 example.cpp "; do
    line=$(readme text | grep -F "$compile\$(pkg-config")
    run "the README's $compile" "${bare[@]}" "cd '$out/readme'; $line; ./example"
done
gcc "${c[@]}" "$out/readme/batch.c" "${libs[@]}" -o "$out/batch"
run "the README's batch" "$out/batch"
# The wheel needs no library, and no other header of ours.
cp crates/capi/include/tickless_wheel.* "$out/alone"
for compile in "cc -std=c99 -D_POSIX_C_SOURCE=200809L wheel.c" "c++ -std=c++17 wheel.cpp"; do
    run "the README's $compile" "${bare[@]}" "cd '$out/readme'
        $compile -Wall -Wextra -Wpedantic -Werror -I ../alone -o wheel; ./wheel"
done
[ "$(pkg-config --cflags --libs tickless-wheel | xargs)" = "-I$out/prefix/lib/pkgconfig/../../include" ] ||
    fail "pkg-config says of the wheel: $(pkg-config --cflags --libs tickless-wheel)"
# By CMake with the shared library, the static one, and the wheel.
for target in tickless static wheel; do
    mkdir "$out/cmake.$target"
    cp "$out/readme/$([ "$target" = wheel ] && echo wheel || echo example).c" "$out/cmake.$target/example.c"
    readme cmake | sed "s/tickless::tickless/tickless::$target/" >"$out/cmake.$target/CMakeLists.txt"
    run "the README's project with $target" "${bare[@]}" "cd '$out/cmake.$target'; unset LD_LIBRARY_PATH
        cmake -S . -B build -DCMAKE_PREFIX_PATH=../prefix; cmake --build build; build/example"
done
! readelf -d "$out/cmake.wheel/build/example" | grep -F tickless || fail "a program with the wheel needs the library"

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
}' | gcc "${c[@]}" -o "$out/twice" -x c -
refused "timer->place == " "$out/twice"
# A result that tells whether there is a timer cannot be dropped by accident.
refused unused-result gcc "${c[@]}" -c -o /dev/null -x c - <<<'#include <tickless.h>
    void f(tickless_engine *engine) { tickless_schedule(engine, 1, 0, 0, 0, 0); }'

[ -n "${LONG:-}" ] || exit 0

# A target that the environment names is where cargo puts the archive, and an old one is not taken.
rm -f "target/$(host)/debug/libtickless_c.a"
CARGO_BUILD_TARGET=$(host) LIBDIR=lib/there "$installer" "$out/named" --dev
[ -e "target/$(host)/debug/libtickless_c.a" ] || fail "install.sh does not know CARGO_BUILD_TARGET"
[ -e "$out/named/lib/there/libtickless.so" ] || fail "install.sh does not know LIBDIR"
PKG_CONFIG_PATH=$out/named/lib/there/pkgconfig pkg-config --libs tickless |
    grep -qF -- "-L$out/named/lib/there/pkgconfig/../../../lib/there" || fail "pkg-config does not know LIBDIR"

# The reference is made from the header, where everything has to be described.
DESTDIR="$out/a package" crates/capi/reference.sh /usr
of_others=$(grep -oh '^static inline.*\|^tickless_wheel_[a-z_]*(' crates/capi/include/tickless_{wheel,post}.h |
    grep -o 'tickless_[a-z_]*[a-z](' | tr -d '(')
for name in "${declared[@]}" $of_others; do
    grep -q "^$name .- " "$out/a package/usr/share/man/man3/$name.3" || fail "$name has no man page of its own"
done
uninstalled

# What a user's flags may be: later standards, no exceptions, hidden names, warnings of other kinds.
for options in {-std=c++17,-std=c++20,-std=c++2b}\ {,"-fno-exceptions -fno-rtti"}; do
    for compiler in g++ clang++; do
        # shellcheck disable=SC2086
        "$compiler" "${cpp[@]}" $options -Wshadow -fvisibility=hidden -fsyntax-only -x c++ - <<<'#include <tickless.hpp>
            int main() {
                tickless::engine engine;
                return engine.schedule(std::chrono::hours(1), [] {}).cancel() ? 0 : 1;
            }'
    done
done

# A program that is instrumented, with a library that is not: what both allocate and free is watched, and what the
# header does is seen. A mistake is noticed: the program that does not wait, and a race of the program's own.
sed 's/tickless_timer_cancel_wait(&object->timer, TICKLESS_NEVER)/tickless_timer_cancel(\&object->timer)/
    s/CHECK(object->owned == NULL.*//; s/CHECK(count_now(&released).*//' crates/capi/tests/c/race.c >"$out/no_wait.c"
sed 's|timer.cancel_wait();|local.uses++;|' crates/capi/tests/cpp/annotated.cpp >"$out/racing.cpp"
asan=(-fsanitize=address,undefined -fno-sanitize-recover=all "${archive[@]}")
tsan=(-fsanitize=thread "${libs[@]}")
gcc "${c[@]}" "$out/no_wait.c" "${asan[@]}" -o "$out/no_wait"
refused heap-use-after-free timeout "$LIMIT" "$out/no_wait" 100000
if [ -e /usr/include/asio.hpp ] || has_command asio.hpp libasio-dev; then
    # (asio's own code is not free of warnings.)
    g++ "${cpp[@]}" -std=c++20 -Wno-maybe-uninitialized -I crates/capi/tests/cpp crates/capi/tests/asio.cpp \
        "${asan[@]}" -o "$out/asio"
    run "asio.cpp, AddressSanitizer" "$out/asio"
    g++ "${cpp[@]}" -std=c++20 -Wshadow -fsyntax-only -x c++ - <<<'#include <tickless_asio.hpp>'
else
    leave_out "asio.cpp, whose headers could not be installed"
fi
export TSAN_OPTIONS="suppressions=$out/prefix/share/tickless/tsan.supp"
g++ "${cpp[@]}" -std=c++20 crates/capi/tests/cpp/annotated.cpp "${tsan[@]}" -o "$out/annotated"
run "annotated, ThreadSanitizer" "$out/annotated"
gcc "${c[@]}" crates/capi/tests/c/post.c "${tsan[@]}" -o "$out/post"
run "post, ThreadSanitizer" "$out/post" "$RACES"
g++ "${cpp[@]}" "$out/racing.cpp" "${tsan[@]}" -o "$out/racing"
refused 'WARNING: ThreadSanitizer: data race' "$out/racing"

# With a library that is instrumented, and the compiler's own runtime.
need_command llvm-symbolizer llvm
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp"
# instrumented SANITIZER SOURCE [OPTION..]: `program` is that source with it.
instrumented() {
    local short=${1:0:1}san compiler=(clang "${c[@]}")
    [[ $2 == *.c ]] || compiler=(clang++ "${cpp[@]}" -std=c++20)
    program=$out/instrumented
    RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=target/$short CARGO_PROFILE_DEV_STRIP=none \
        RUSTFLAGS="-Zsanitizer=$1 -Cunsafe-allow-abi-mismatch=sanitizer --cfg $short" \
        cargo rustc --locked --package tickless-c --crate-type staticlib --target "$(host)"
    "${compiler[@]}" "${@:3}" "-fsanitize=$1" -c "$2" -o "$program.o"
    "${compiler[0]}" -no-pie "$program.o" "target/$short/$(host)/debug/libtickless_c.a" -Wl,--whole-archive \
        "$(rustc --print sysroot)/lib/rustlib/$(host)/lib/librustc-stable_rt.$short.a" -Wl,--no-whole-archive \
        -Wl,--export-dynamic -lstdc++ -pthread -ldl -lm -lrt -o "$program"
}
for source in c/{threads,driven,race,published,contended,repeating,scope,batch}.c cpp/wrapper.cpp; do
    instrumented thread "crates/capi/tests/$source"
    run "$source, ThreadSanitizer" "$program" "$((RACES / 100))"
done
instrumented thread "$out/no_wait.c"
refused 'ThreadSanitizer: ' timeout "$LIMIT" "$program" 100000
# (Misbehaviour ends the program.)
for source in c/{timers,calls,threads,driven,process,misuse,race,published,contended,restart,repeating,scope}.c \
    c/{batch,wheel,wheel_model,post}.c cpp/{wrapper,scope,wheel,inside,coroutine}.cpp; do
    instrumented address "crates/capi/tests/$source" -fsanitize=undefined -fsanitize-trap=undefined
    run "$source, AddressSanitizer" "$program" "$((RACES / 10))"
done

valgrind=(valgrind --quiet --error-exitcode=9 "--suppressions=$out/prefix/share/tickless/valgrind.supp")
gcc -g "$out/readme/example.c" "${flags[@]}" "${libs[@]}" -pthread -o "$out/example"
run "the README's example, helgrind" "${valgrind[@]}" --tool=helgrind "$out/example"
run "the README's example, memcheck" "${valgrind[@]}" --leak-check=full --show-leak-kinds=all \
    --errors-for-leak-kinds=all "$out/example"
for name in calls driven misuse restart repeating batch wheel race scope; do
    run "$name, valgrind" valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
        --fair-sched=yes "$out/$name.gcc" "$((RACES / 1000))"
done

# Statically, from a copy without the shared library, in a folder whose name has a space (which
# pkg-config escapes): with the C library as a shared one, in a program that loads nothing, and in one
# that is optimized as a whole by a compiler which does not know Rust's bitcode.
cp -r "$out/prefix" "$out/a copy"
rm "$out/a copy"/lib/libtickless.so*
line=$(PKG_CONFIG_PATH="$out/a copy/lib/pkgconfig" pkg-config --static --cflags --libs tickless)
for compiler in {gcc,clang}\ {,-flto,-static}; do
    # Of the C library, Rust's also uses what needs shared libraries: the linker warns.
    eval "$compiler '$out/readme/example.c' $line -o '$out/static'" || fail "$compiler does not link the archive"
    run "the README's example, linked statically by $compiler" "$out/static"
done

# What is measured runs to its end, with each contender. (packages.sh has the examples without one.)
pkg-config --exists libuv libevent && [ -e /usr/include/ev.h ] ||
    need_command uv.h libuv1-dev libevent-dev libev-dev
for loop in uv ev; do
    # (libev's macros break the rules of aliasing.)
    gcc "${c[@]}" -Wno-strict-aliasing "crates/capi/examples/loop_$loop.c" "${libs[@]}" "-l$loop" -o "$out/loop_$loop"
    run "the loop of $loop" "$out/loop_$loop"
done
for study in run loop stall; do
    env -u LD_LIBRARY_PATH -u PKG_CONFIG_PATH timeout "$LIMIT" "crates/capi/bench/$study.sh" --quick ||
        fail "crates/capi/bench/$study.sh does not run"
done
