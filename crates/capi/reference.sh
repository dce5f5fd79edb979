#!/usr/bin/env bash
# Makes the reference of the C API from its headers: crates/capi/reference.sh PREFIX writes man pages to
# PREFIX/share/man/man3, one for each function and type (man.py), and HTML to
# PREFIX/share/doc/tickless/html. DESTDIR is put before PREFIX. Needs Debian's doxygen, of which a warning
# is an error: what has no description, or names what there is not; and groff, likewise.
set -euo pipefail

[ $# = 1 ] && [ -n "$1" ] && [ "${1#-}" = "$1" ] || {
    echo "usage: crates/capi/reference.sh PREFIX" >&2
    exit 2
}
to=${DESTDIR:-}$1
case $to in
/*) ;;
*) to=$PWD/$to ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")"

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT

# The header is written to be read as it is. Here, the headings of its comments become headings, and
# names become links.
sed -E '
    1 s|^/\* |/** @file\n * @brief |
    1,/\*\// s/^ \* ([A-Z]+( [A-Z]+)*)\. / * @par \1\n * /
    1,/\*\// s/^ \*   (tickless_[a-z_]+, _.*|tickless_[a-z_]+)  +(.*)$/ * - \1: \2/
    /^( \*| *\/\/\/)/ {
        s/^\/\/\/ Errors: /\/\/\/ @par Errors\n\/\/\/ /
        s/^\/\/\/ Errors, /\/\/\/ @par Errors\n\/\/\/ /
        s/\b(TICKLESS_([A-Z]+_)*[A-Z]+)([^A-Z_*]|$)/#\1\3/g
        s/\b(tickless_([a-z]+_)*[a-z]+)([^a-z_(.`)]|\.$|\. |$)/\1()\3/g
        s/\b(tickless_(engine|timer|options|when|[a-z]+_info|([a-z]+_)?fn))\(\)/\1/g
    }
' include/tickless.h >"$out/tickless.h"

cat >"$out/Doxyfile" <<'END'
PROJECT_NAME = tickless
PROJECT_BRIEF = "A lock-free timer engine, from C"
INPUT = tickless.h
FULL_PATH_NAMES = NO
OPTIMIZE_OUTPUT_FOR_C = YES
TYPEDEF_HIDES_STRUCT = YES
SORT_MEMBER_DOCS = NO
JAVADOC_AUTOBRIEF = YES
GENERATE_LATEX = NO
HAVE_DOT = NO
HTML_TIMESTAMP = NO
QUIET = YES
WARN_AS_ERROR = FAIL_ON_WARNINGS
# Parameters are described in the text.
WARN_IF_INCOMPLETE_DOC = NO
PREDEFINED = __cplusplus __linux__ __LP64__ __GNUC__ TICKLESS_MUST_USE=
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
END
(cd "$out" && doxygen Doxyfile)

# The headers that need no library, whose comments are plain ones.
for name in wheel post; do
    mkdir "$out/$name"
    sed -E '
        1 s|^/\* |/** @file\n * @brief |
        1,/\*\// s/^ \* ([A-Z]+)\. / * @par \1\n * /
        2,$ s|^( *)/\* |\1/** |
        s/^static inline/static/
    ' "include/tickless_$name.h" >"$out/$name/tickless_$name.h"
    sed "s/tickless\.h/tickless_$name.h/; s/^PROJECT_NAME.*/PROJECT_NAME = tickless_$name/
        \$ a EXTRACT_STATIC = YES\nWARN_IF_UNDOCUMENTED = NO\nEXCLUDE_SYMBOLS = *_" \
        "$out/Doxyfile" >"$out/$name/Doxyfile"
    (cd "$out/$name" && doxygen Doxyfile)
    mv "$out/$name/html" "$out/html/$name"
done

version=$(sed -n 's/^version = "\(.*\)"/\1/p' ../../Cargo.toml | head -1)
python3 man.py "$version" "$out/man/man3"
# A page that groff would change is not written.
complaints=$(cd "$out/man" && groff -man -ww -z man3/*.3 2>&1) && [ -z "$complaints" ] || {
    echo "$complaints" >&2
    exit 1
}
install -d -m 755 "$to/share/man/man3" "$to/share/doc/tickless/html"
install -m 644 "$out"/man/man3/* "$to/share/man/man3"
cp -r "$out/html/." "$to/share/doc/tickless/html"
echo "the reference is in $to/share"
