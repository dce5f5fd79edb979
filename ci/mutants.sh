#!/usr/bin/env bash
# Changes the engine some four thousand times, each in one place, and expects a test to fail each time: without
# arguments one of PART parts, the SHARDth or by chance, since all of them take days. Arguments are paths that the
# changed files begin with: `ci/mutants.sh crates/core/src/entry/word.rs crates/core/src/wheel`. Survivors are listed in
# target/mutants.out/missed.txt; those that are known, and why no test can notice them, are in
# .cargo/mutants.toml. What this does not change, orderings and fences, is changed by
# loom-tests/mutants.py: all of it has to compile, and a part of it is tried here, too.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_nextest
need_cargo_tool cargo-mutants 27.1.0
# Each mutant is a small change of the last.
export CARGO_INCREMENTAL=1 TICKLESS_TEST_SCALE=0.1
# Seconds after which a build or a whole run of the tests counts as one that hangs.
LIMIT=120
COPY=target/mutable
CHANGED=(tickless{,-core,-sync,-netty,-wheel})
# The tests that see most. What is left out says the same again with more work, or something else: text,
# examples, the wheels for one thread. (Placement is the wheel's and the engine's.)
ASKED=("${CHANGED[@]}" race-tests)
TESTS=(--lib --test={suite,races,memory,netty,boottime,freed,oracles,wheels})
paths=$(IFS='|' && echo "${*:-src/|crates/core/src/|crates/sync/src/|crates/netty/src/|crates/wheel/src/}")
PART=${PART:-60}
part=()
if [ $# = 0 ]; then
    part=(--shard "${SHARD:=$((RANDOM % PART))}/$PART")
    echo "SHARD=$SHARD of PART=$PART"
    loom-tests/mutants.py --check
    loom-tests/mutants.py --one-of "$PART"
fi

# The tool leaves unsafe functions alone, and they are the heart of the engine. So it changes a copy
# in which they pass for safe ones.
mkdir -p "$COPY"
rm -rf "${COPY:?}"/{src,crates,tests}
git ls-files -z --cached --others --exclude-standard |
    xargs -0 cp --parents --target-directory "$COPY"
find "$COPY/src" "$COPY/crates/core/src" "$COPY/crates/sync/src" "$COPY/crates/wheel/src" -name '*.rs' -exec sed -i -E 's/\bunsafe fn ([a-z_])/fn \1/' {} +

# Without a change they pass. (The tool's own look at that knows no package that is not changed.)
(cd "$COPY" && RUSTFLAGS=--cap-lints=warn cargo nextest run --locked --cargo-profile mutants --profile mutants "${ASKED[@]/#/--package=}" "${TESTS[@]}")
cargo mutants --dir "$COPY" --in-place --output target "${CHANGED[@]/#/--package=}" "${ASKED[@]/#/--test-package=}" \
    "${TESTS[@]/#/--cargo-arg=}" --re "^($paths)" "${part[@]}" --baseline skip --timeout "$LIMIT" --build-timeout "$LIMIT" --no-shuffle
