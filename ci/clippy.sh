#!/usr/bin/env bash
# No warning of the compiler or of clippy: in the library of each crate that is published, with no feature
# and with each alone, and in each crate's tests with what a plain `cargo test` has. (ci/clippy_all.sh looks
# at all other code.) And the compiler says in our words that a payload has the wrong type.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CARGO_TARGET_DIR=$PWD/target/clippy
lint() {
    cargo clippy --locked "$@" -- -D warnings || fail "warnings: $*"
}

for crate in tickless tickless-core tickless-wheel tickless-durable tickless-c tickless-demo race-tests \
    test-support loom-tests; do
    lint --package "$crate" --all-targets
done

features() {
    sed -n '/^\[features\]$/,/^$/s/^\([a-z-]*\) = .*/\1/p' "$1/Cargo.toml"
}
[ -n "$(features .)" ] && [ -n "$(features core)" ] && [ -n "$(features durable)" ] || fail "no feature was found"
for feature in "" $(features .); do
    lint --package tickless --lib --features "$feature"
done
for feature in "" $(features core); do
    lint --package tickless-core --lib --features "$feature"
done
# (ci/servers.sh has the stores on servers, whose clients are large.)
for feature in "" $(features durable | grep -vE '^(postgres|nats)$'); do
    lint --package tickless-durable --lib --features "$feature"
done
# So that pairs of features have nothing to show.
! grep -rnE 'cfg.*feature *=.*feature *=' src core/src || fail "code that depends on two features at once"

library=$(find "$CARGO_TARGET_DIR/debug/deps" -name 'libtickless-*.rmeta' -printf '%T@ %p\n' | sort -n | tail -n 1)
said=$(rustc --edition 2024 --crate-type lib --emit metadata -o "$CARGO_TARGET_DIR/wrong.rmeta" \
    -L "dependency=$CARGO_TARGET_DIR/debug/deps" --extern "tickless=${library#* }" - 2>&1 <<'CODE'
pub fn wrong(engine: &tickless::Engine) {
    let _ = engine.schedule(std::time::Duration::ZERO, 7_u64);
}
CODE
) && fail "a number was scheduled on an engine of closures"
for words in "\`u64\` cannot be scheduled on an \`Engine<Task>\`" \
    "an \`Engine\` of closures takes any \`FnOnce() + Send + 'static\`"; do
    grep -qF "$words" <<<"$said" || fail "the compiler does not say: $words
$said"
done
