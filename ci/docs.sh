#!/usr/bin/env bash
# The documentation of the published crates, with what docs.rs says of features: its links lead somewhere, its pages
# say nothing about the models, and nothing lacks a description.

# As cargo's rustdoc: documents the crate whose doctests cargo would run, since all that it needs is built by then.
if [[ ${RUSTDOC:-} == */ci/docs.sh ]]; then
    crate=$(sed 's/.* --crate-name \([a-z_]*\) .*/\1/' <<<"$*")
    [[ " $OURS " == *" $crate "* ]] || exit 0
    options=(-D warnings --cfg docsrs -Z unstable-options -o "$DOCS")
    # What doctests alone depend on is left out, and links to our other crates lead into the same folder.
    needs=" $(cargo tree --locked --all-features --package "${crate//_/-}" --depth 1 --edges normal --prefix none --format '{lib}' | tail -n +2 | xargs) "
    for need in $needs; do
        [[ " $OURS " == *" $need "* ]] && page=/ || page=https://docs.rs/$need/latest/
        options+=("--extern-html-root-url=$need=$page")
    done
    while [ $# -gt 0 ]; do
        case $1 in
            --test) ;;
            --extern) shift && [[ $needs != *" ${1%%=*} "* ]] || options+=(--extern "$1") ;;
            *) options+=("$1") ;;
        esac
        shift
    done
    # docs.rs has an unstable compiler, and the stable one does the same if it is told to.
    RUSTC_BOOTSTRAP=1 exec rustdoc "${options[@]}"
fi
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

with_lints
export DOCS=$PWD/target/docs
export OURS="${CRATES[*]//-/_}"
PAGES=$DOCS/tickless
WHEEL_PAGES=$DOCS/tickless_wheel

rm -rf "$DOCS"
# (In the gate without the feature that the tests do not have.)
RUSTDOC=$PWD/ci/docs.sh cargo test --locked "${TOGETHER[@]}" ${LONG:+--features tickless/quinn} --doc
need_command python3 python3
# shellcheck disable=SC2086
python3 ci/links.py "$DOCS" $OURS || fail "links lead nowhere"
for crate in $OURS; do
    [ -s "$DOCS/$crate/index.html" ] || fail "$crate has no pages"
done
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
