#!/usr/bin/env bash
# Every example runs to its end and is content. The service fails by itself if one of its timers
# was early, lost, fired twice or fired after its cancel.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Seconds after which an example hangs.
LIMIT=60

# Not optimized: most of it was built for the tests.
export CARGO_PROFILE_DEV_DEBUG=false
cargo build --quiet --locked --all-features --examples
[ -e examples/service/main.rs ] || fail "the service is missing"
for source in examples/*.rs examples/*/main.rs; do
    name=${source#examples/}
    name=${name%/main.rs}
    name=${name%.rs}
    arguments=()
    if [ "$name" = service ]; then
        arguments=(--seconds 5 --json)
    fi
    echo "== $name ${arguments[*]}"
    timeout "$LIMIT" "target/debug/examples/$name" "${arguments[@]}" </dev/null ||
        fail "$name ended with $?"
done
