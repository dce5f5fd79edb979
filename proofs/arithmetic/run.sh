#!/usr/bin/env bash
# The engine's arithmetic, proved for all numbers by an SMT solver, and the changes of it that the
# proofs have to refute. The first run installs the solver in target/arithmetic. The environment sets
# how many calls of each function are compared (CALLS, 4000) and the seed of their inputs (SEED).
# Arguments choose properties: `run.sh slot` proves those whose names contain the word.
source "$(dirname "${BASH_SOURCE[0]}")/../../ci/lib.sh"

# The version that the proofs were tried with: another one may take longer.
Z3_VERSION=5.4.1.0

need_command python3 python3
out=$PWD/target/arithmetic
python=$out/venv/bin/python
mkdir -p "$out"

has_z3() {
    [ -x "$python" ] && "$python" -c "import z3" 2>/dev/null &&
        "$python" -m pip show z3-solver 2>/dev/null | grep -qx "Version: $Z3_VERSION"
}

if ! has_z3; then
    echo "installing z3-solver $Z3_VERSION"
    if ! { python3 -m venv --clear "$out/venv" &&
        "$python" -m pip install "z3-solver==$Z3_VERSION"; } >"$out/install.log" 2>&1; then
        tail -n 3 "$out/install.log"
        leave_out "the arithmetic: pip could not install z3-solver $Z3_VERSION"
        exit 0
    fi
fi

cargo build --locked --package arithmetic
target/debug/arithmetic "${CALLS:-4000}" "${SEED:-1}" >"$out/lines.txt"
PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 "$python" proofs/arithmetic/prove.py "$out/lines.txt" "$@"
