#!/usr/bin/env bash
# The README's demo, which fails by itself if one of its timers was early, lost, fired twice or fired
# after its cancel (small and built as the tests are; with LONG=1 as the README says); and each example, which
# ends by itself and checks what it shows. The proofs' programs compile.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

with_lints
# Seconds after which a program hangs.
LIMIT=600

page=$(mktemp)
trap 'rm -f "$page"' EXIT
# And what the proofs are made of, which the long run starts: it reads the core, and has to follow it.
cargo build --locked "${TOGETHER[@]}" --package arithmetic --package coherence --package histories --lib --bins --examples
demo=(target/debug/tickless-demo --seconds 1 --timers 20000)
[ -z "${LONG:-}" ] || demo=(cargo run --release -p tickless-demo --)
timeout "$LIMIT" "${demo[@]}" --compare --report "$page" || fail "the demo ended with $?"
grep -q '</html>' "$page" || fail "the demo wrote no page"

for source in {,crates/{netty,inspect}/}examples/*.rs; do
    name=$(basename "$source" .rs)
    echo "== $name"
    timeout "$LIMIT" "target/debug/examples/$name" </dev/null || fail "$name ended with $?"
done
# It kills itself, and fails if a reminder is lost or early.
timeout "$LIMIT" target/debug/examples/reminders --reminders 10000 || fail "reminders ended with $?"
