#!/usr/bin/env bash
# The documentation builds, its links lead somewhere, and nothing lacks an example.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps --all-features
# Every public item shows how it is used. The compiler's own list of items is not stable, but the
# stable compiler writes it.
need_command python3 python3
RUSTC_BOOTSTRAP=1 cargo rustdoc --quiet --locked --all-features --target-dir target/public -- \
    -Z unstable-options --output-format json --document-hidden-items
ci/examples_in_docs.py target/public/doc/tickless.json
