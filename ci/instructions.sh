#!/usr/bin/env bash
# Instructions and allocations per operation stay below their limits, which stand at the top of
# benches/instructions/gate.rs. What was counted comes as a table; all of the output is in the log.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

GATE=benches/instructions/gate.rs
LOG=target/instructions.txt

need_valgrind
need_gungraun
# Counts need the names of functions, not of lines; lines take a third of the build.
export CARGO_PROFILE_BENCH_DEBUG=false CARGO_PROFILE_BENCH_STRIP=none
export GUNGRAUN_COLOR=never GUNGRAUN_PARALLEL=auto

mkdir -p "$(dirname "$LOG")"
verdict=0
cargo bench --quiet --locked --package instructions >"$LOG" 2>&1 || verdict=$?
[ "$verdict" = 0 ] || cat "$LOG"

# Reads the limits from the one and what was counted from the other.
awk '
    NR == FNR && /^const OPERATIONS: / { gsub(/[^0-9]/, ""); operations = $0 }
    NR == FNR && /^    \("[a-z_]+", \[[0-9_]+, [0-9_]+\], [0-9_]+\),$/ {
        split($0, row, /[^a-z0-9_]+/)
        for (i = 3; i <= 5; i++) { gsub(/_/, "", row[i]); row[i] += 0 }
        names[++rows] = row[2]
        limits[row[2], "closures"] = row[3]
        limits[row[2], "numbers"] = row[4]
        block_limits[row[2]] = row[5]
    }
    # What is not an operation of the table (the hashed wheel) counts for none.
    NR != FNR && /^instructions::/ { split(/::operations::/ ? $0 : "", bench, /[: ]+/) }
    NR != FNR && /^  Instructions: / { counts[bench[3], bench[4]] = $2 + 0 }
    NR != FNR && /^  Total blocks: / { blocks[bench[3], bench[4]] = $3 + 0 }
    END {
        form = "%-30s %-9s %12s %6s %7s %6s%s\n"
        printf "\n" form, "operation", "engine", "instructions", "limit", "blocks", "limit", ""
        for (i = 1; i <= rows; i++) {
            show(names[i], "closures")
            show(names[i], "numbers")
        }
        exit !(rows > 0 && operations > 0 && !uncounted)
    }
    function show(name, engine,   each, limit, note) {
        limit = limits[name, engine]
        if (((name, engine) in counts) && ((name, engine) in blocks)) {
            each = counts[name, engine] / operations
            if (each > limit || blocks[name, engine] > block_limits[name]) note = "  too many"
            each = sprintf("%.1f", each)
        } else {
            note = "  not counted"
            uncounted++
        }
        printf form, name, engine, each, limit, blocks[name, engine], block_limits[name], note
    }
' "$GATE" "$LOG" || fail "not every operation was counted"
[ "$verdict" = 0 ] || fail "an operation costs too much, or is not what it was meant to be"
