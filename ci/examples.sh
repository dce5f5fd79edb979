#!/usr/bin/env bash
# Every example runs to its end and is content, and so does the demo, which fails by itself if one of
# its timers was early, lost, fired twice or fired after its cancel.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Seconds after which an example hangs.
LIMIT=60

# Not optimized: most of it was built for the tests.
export CARGO_PROFILE_DEV_DEBUG=false
cargo build --quiet --locked --all-features --examples
cargo build --quiet --locked --package tickless-demo

# run PROGRAM [ARGUMENT..]
run() {
    echo "== $*"
    timeout "$LIMIT" "target/debug/$1" "${@:2}" </dev/null || fail "$1 ended with $?"
}

for source in examples/*.rs; do
    name=${source#examples/}
    run "examples/${name%.rs}"
done
run tickless-demo --seconds 5 --timers 100000 --json
