#!/usr/bin/env bash
# No warning in the engine as it is by default, without a feature: what the C library is made of. (All else is linted
# as it is built: `with_lints` in lib.sh. `docs` reads it with all features; ci/clippy_all.sh has each
# alone, and all other code.) And the compiler says in our words that a payload has the wrong type.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

with_lints
# (As crates/capi/install.sh does, which finds it built.)
cargo rustc --locked --package tickless-c --crate-type staticlib

deps=target/debug/deps
library=$(find "$deps" -name 'libtickless-*.rmeta' -printf '%T@ %p\n' | sort -n | tail -n 1)
for words in "\`u64\` cannot be scheduled on an \`Engine<Task>\`" \
    "an \`Engine\` of closures takes any \`FnOnce() + Send + 'static\`"; do
    refused "$words" rustc --edition 2024 --crate-type lib --emit metadata -o target/wrong.rmeta \
        -L "dependency=$deps" --extern "tickless=${library#* }" - \
        <<<'pub fn wrong(engine: &tickless::Engine) { let _ = engine.schedule(std::time::Duration::ZERO, 7_u64); }'
done
