# What the scripts of this folder measure; each sources it in the repository's root. Into $out: the
# library in $out/prefix, the C++ programs $out/bench (statically linked) and $out/bench-shared. $pair
# is the program in Rust.
# shellcheck shell=bash

crates/capi/install.sh "$out/prefix" >/dev/null
cargo build --quiet --locked --release --package tickless-c --example pair \
    --config 'profile.release.lto="fat"' --config 'profile.release.codegen-units=1' \
    --config 'profile.release.debug=false'
export PKG_CONFIG_PATH=$out/prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
compile=(g++ -std=c++17 -O2 -Wall -Wextra -Werror -pthread crates/capi/bench/bench.cpp crates/capi/bench/contenders.cpp)
read -ra flags < <(pkg-config --cflags tickless libuv libevent_pthreads)
read -ra rivals < <(pkg-config --libs libuv libevent libevent_pthreads)
"${compile[@]}" "${flags[@]}" "$out/prefix/lib/libtickless.a" "${rivals[@]}" -lm -o "$out/bench"
"${compile[@]}" "${flags[@]}" "-L$out/prefix/lib" -ltickless "${rivals[@]}" -o "$out/bench-shared"
# For the script that sources this.
# shellcheck disable=SC2034
pair=${CARGO_TARGET_DIR:-target}/release/examples/pair
