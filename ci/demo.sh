#!/usr/bin/env bash
# The README's demo, which fails by itself if one of its timers was early, lost, fired twice or fired
# after its cancel; and each example, which ends by itself and checks what it shows.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Seconds after which a program hangs.
LIMIT=600

page=$(mktemp)
trap 'rm -f "$page"' EXIT
cargo build --release -p tickless-demo
timeout "$LIMIT" cargo run --release -p tickless-demo -- \
    --seconds 3 --timers 100000 --compare --report "$page" || fail "the demo ended with $?"
grep -q '</html>' "$page" || fail "the demo wrote no page"

cargo build --locked "${TOGETHER[@]}" --examples
for source in {,netty/,inspect/}examples/*.rs; do
    name=$(basename "$source" .rs)
    echo "== $name"
    timeout "$LIMIT" "target/debug/examples/$name" </dev/null || fail "$name ended with $?"
done
# It kills itself, and fails if a reminder is lost or early.
timeout "$LIMIT" target/debug/examples/reminders --reminders 10000 || fail "reminders ended with $?"
