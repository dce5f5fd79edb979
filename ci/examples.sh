#!/usr/bin/env bash
# Every example runs to its end and is content, and so does the demo, which fails by itself if one of
# its timers was early, lost, fired twice or fired after its cancel. A browser shows the page that the
# demo writes without a fault, and the one that an inspector serves.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Seconds after which an example hangs.
LIMIT=60

lint_what_is_built
# Not optimized: most of it was built for the tests.
export CARGO_PROFILE_DEV_DEBUG=false
cargo build --quiet --locked --all-features --examples --bin tickless-demo

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

# The inspector's page, while its engine is busy: the example serves it until its input ends.
mkfifo "$results/input"
target/debug/examples/watching <"$results/input" >"$results/watching" &
served=$!
exec 3>"$results/input"
for _ in $(seq 100); do
    address=$(grep -o 'http://[^ ,]*' "$results/watching" | head -1 || true)
    [ -n "$address" ] && break
    sleep 0.1
done
[ -n "$address" ] || fail "the example has no page"
timeout "$LIMIT" chromium-headless-shell --no-sandbox --disable-gpu --enable-logging=stderr \
    --virtual-time-budget=5000 --dump-dom --user-data-dir="$results/browser" "$address" \
    >"$results/shown" 2>"$results/log" || fail "the browser ended with $?"
exec 3>&-
wait "$served" || fail "watching ended with $?"
echo "== the inspector's page in a browser"
python3 ci/inspector.py "$results/shown" "$results/log" || fail "the page has faults"
