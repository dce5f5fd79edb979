#!/usr/bin/env bash
# A browser shows the page that the demo writes without a fault, the one that an inspector serves, and that of
# durable timers, which it uses as a person does: it reads on, revives, forgets, pauses. (With PICTURES, a folder,
# that one leaves two pictures there.)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Seconds after which a program hangs.
LIMIT=600

need_command chromium-headless-shell chromium-headless-shell
need_command python3 python3
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# browse ADDRESS [OPTION..]
browse() {
    timeout "$LIMIT" chromium-headless-shell --no-sandbox --disable-gpu --dump-dom \
        --user-data-dir="$results/browser" "${@:2}" "$1" || fail "the browser ended with $?"
}

cargo build --locked -p tickless-inspect --example watching
timeout "$LIMIT" cargo run -p tickless-demo -- --seconds 3 --timers 100000 --compare --report "$results/page.html"
# A script at its end looks for faults and writes them into the title.
cat crates/demo/tests/browser.html >>"$results/page.html"
title=$(browse "file://$results/page.html" 2>/dev/null | grep -o '<title>.*</title>' || true)
echo "== the demo's page: $title"
[ "$title" = "<title>no faults</title>" ] || fail "the page has faults"

# While its engine is busy: the example serves the page until its input ends.
mkfifo "$results/input"
target/debug/examples/watching <"$results/input" >"$results/watching" &
served=$!
exec 3>"$results/input"
for _ in $(seq 600); do
    address=$(grep -o 'http://[^ ,]*' "$results/watching" | head -1 || true)
    [ -z "$address" ] || break
    sleep 0.1
done
[ -n "$address" ] || fail "the example has no page"
browse "$address" --enable-logging=stderr --virtual-time-budget=5000 >"$results/shown" 2>"$results/log"
exec 3>&-
wait "$served" || fail "watching ended with $?"
echo "== the inspector's page"
python3 ci/inspector.py "$results/shown" "$results/log" || fail "the page has faults"

# The test writes the store, and cargo builds the command line for it.
TICKLESS_PAGE_STORE=$results/timers some_tests timeout "$LIMIT" \
    cargo test --locked -p tickless-durable --test durable page::the_errors_of_each_attempt
echo "== the page of durable timers"
timeout "$LIMIT" python3 ci/durable_page.py target/debug/tickless-durable "$results/timers" ${PICTURES:+"$PICTURES/durable"} ||
    fail "the page has faults"
