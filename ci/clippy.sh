#!/usr/bin/env bash
# No warning of the compiler or of clippy in the published crates, the C library, the demo and the programs
# of tests, compiled together as the tests are, nor in the engine with no feature or with one alone.
# (ci/clippy_all.sh looks at all other code.) And the compiler says in our words that a payload has the
# wrong type.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

lint() {
    cargo clippy --locked "$@" -- -D warnings || fail "warnings: $*"
}

# (With the programs that a plain `cargo test` leaves out.)
lint "${TOGETHER[@]}" --package loom-tests --lib --bins --examples --tests --test realtime --test wakes

for crate in tickless:. tickless-core:core; do
    features=$(sed -n '/^\[features\]$/,/^$/s/^\([a-z-]*\) = .*/\1/p' "${crate#*:}/Cargo.toml")
    [ -n "$features" ] || fail "no feature of $crate was found"
    for feature in "" $features; do
        lint --no-deps --package "${crate%:*}" --lib --features "$feature"
    done
done
# So that pairs of features have nothing to show.
! grep -rnE 'cfg.*feature *=.*feature *=' src core/src || fail "code that depends on two features at once"

deps=target/debug/deps
library=$(find "$deps" -name 'libtickless-*.rmeta' -printf '%T@ %p\n' | sort -n | tail -n 1)
for words in "\`u64\` cannot be scheduled on an \`Engine<Task>\`" \
    "an \`Engine\` of closures takes any \`FnOnce() + Send + 'static\`"; do
    refused "$words" rustc --edition 2024 --crate-type lib --emit metadata -o target/wrong.rmeta \
        -L "dependency=$deps" --extern "tickless=${library#* }" - \
        <<<'pub fn wrong(engine: &tickless::Engine) { let _ = engine.schedule(std::time::Duration::ZERO, 7_u64); }'
done
