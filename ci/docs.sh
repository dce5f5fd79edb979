#!/usr/bin/env bash
# The documentation of the engine, its core and the crates beside it, but for durable timers, builds as
# docs.rs builds it, its links lead somewhere, its pages say nothing about the models, and nothing lacks a description.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# docs.rs has an unstable compiler, and the stable one does the same if it is told to.
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR=target/docsrs
PAGES=$CARGO_TARGET_DIR/doc/tickless
WHEEL_PAGES=$CARGO_TARGET_DIR/doc/tickless_wheel

rm -rf "$CARGO_TARGET_DIR/doc"
# With links to other crates' pages, as docs.rs has them.
RUSTDOCFLAGS="--cfg docsrs -D warnings" cargo doc --locked --no-deps --all-features "${ENGINE[@]}" -Z rustdoc-map \
    --config 'doc.extern-map.registries.crates-io="https://docs.rs/"'
need_command python3 python3
python3 ci/links.py "$CARGO_TARGET_DIR/doc" "${CRATES[@]//-/_}" || fail "links lead nowhere"
# For the models, parts of the crate are left out, which users would read as a restriction.
! grep -rlE --include='*.html' 'Available on [^.]*(neither|loom|shuttle|tsan)' "$PAGES" "$WHEEL_PAGES" ||
    fail "these pages speak of the models"
# What is shown as a re-export comes without its description: it lacks `doc(inline)`.
! grep -rlE --include='*.html' 'id="reexport\.' "$PAGES" "$WHEEL_PAGES" ||
    fail "these pages have re-exports without a description"
# Some features have a page or more of their own, which say so: the first check reads something.
grep -rqE --include='*.html' 'Available on [^.]*crate feature' "$PAGES" ||
    fail "no page says which feature it needs"
# What `tickless` re-exports has pages in both.
for page in "$PAGES/local/struct.Wheel.html" "$WHEEL_PAGES/struct.Wheel.html"; do
    [ -s "$page" ] || fail "the page $page is missing"
done
