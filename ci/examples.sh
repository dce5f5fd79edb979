#!/usr/bin/env bash
# Every example runs to its end and is content, and so does the demo, which fails by itself if one of
# its timers was early, lost, fired twice or fired after its cancel. A browser shows the page that the
# demo writes without a fault.
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

results="$(mktemp -d)"
trap 'rm -rf "$results"' EXIT
run tickless-demo --seconds 3 --timers 100000 --compare --report "$results/page.html"
# The page as a browser shows it: a script at its end looks for faults and writes them into the title.
need_command chromium-headless-shell chromium-headless-shell
cat demo/tests/browser.html >>"$results/page.html"
shown=$(timeout "$LIMIT" chromium-headless-shell --no-sandbox --disable-gpu --dump-dom \
    --user-data-dir="$results/browser" "file://$results/page.html" 2>/dev/null) ||
    fail "the browser ended with $?"
title=$(grep -o '<title>.*</title>' <<<"$shown" || true)
echo "== the page in a browser: $title"
[ "$title" = "<title>no faults</title>" ] || fail "the page has faults"
