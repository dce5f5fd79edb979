#!/usr/bin/env bash
# No warning of the compiler in the engine with no feature or with one alone. (What the tests are built from is
# linted as it is built: `with_lints` in lib.sh. ci/clippy_all.sh looks at all other code.) And the compiler
# says in our words that a payload has the wrong type.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for crate in tickless:. tickless-core:crates/core; do
    features=$(sed -n '/^\[features\]$/,/^$/s/^\([a-z-]*\) = .*/\1/p' "${crate#*:}/Cargo.toml")
    [ -n "$features" ] || fail "no feature of $crate was found"
    for feature in "" $features; do
        cargo rustc --locked --profile check --package "${crate%:*}" --lib --features "$feature" -- -D warnings ||
            fail "warnings: ${crate%:*} with ${feature:-no feature}"
    done
done
# So that pairs of features have nothing to show.
! grep -rnE 'cfg.*all\(.*feature *=.*feature *=' src crates/core/src || fail "code that depends on two features at once"

deps=target/debug/deps
library=$(find "$deps" -name 'libtickless-*.rmeta' -printf '%T@ %p\n' | sort -n | tail -n 1)
for words in "\`u64\` cannot be scheduled on an \`Engine<Task>\`" \
    "an \`Engine\` of closures takes any \`FnOnce() + Send + 'static\`"; do
    refused "$words" rustc --edition 2024 --crate-type lib --emit metadata -o target/wrong.rmeta \
        -L "dependency=$deps" --extern "tickless=${library#* }" - \
        <<<'pub fn wrong(engine: &tickless::Engine) { let _ = engine.schedule(std::time::Duration::ZERO, 7_u64); }'
done
