#!/usr/bin/env bash
# Measures what PERF.md says of the embedded stores, in one run, and ends with the rows to paste there:
# crates/durable/bench/run.sh. It needs a quiet machine, beanstalkd for its row, and 2.5 GB in the directory of
# TMPDIR, on a disk that syncs. All that is said goes to durable-figures.txt in the target folder, too.
# --quick: everything once, in small sizes. That it runs is all that this shows.
# --built: without building, by programs of an earlier run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

rounds=3 timers=10000000 reminders=100000 kills=600 others=(5) builds=1
for option; do
    case $option in
        --quick)
            rounds=1 timers=10000 reminders=1000 kills=12 others=(1 quick)
            export FIGURES_QUICK=1
            ;;
        --built) builds= ;;
        *) echo "what is $option?" >&2 && exit 2 ;;
    esac
done
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
programs=$CARGO_TARGET_DIR/release

# Before anything is measured.
if [ -n "$builds" ]; then
    cargo build --release --locked -p tickless-durable --example figures --example reminders
    cargo test --release --locked -p tickless-durable --test durable --no-run
    cargo build --release --locked --manifest-path crates/durable/bench/Cargo.toml
fi
# Its name has a hash.
tests=$(find "$programs/deps" -name 'durable-*' -executable -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)

measure() {
    echo "$(nproc) processors, Linux $(uname -r), $(rustc --version), load $(cut -d' ' -f1-3 /proc/loadavg)"
    for _ in $(seq "$rounds"); do
        "$programs/examples/figures"
    done
    "$programs/examples/figures" memory "$timers"
    "$programs/examples/reminders" --reminders "$reminders"
    DURABLE_KILLS=$kills "$tests" kill:: --nocapture
    "$programs/tickless-durable-bench" "${others[@]}"
}
measure 2>&1 | tee "$CARGO_TARGET_DIR/durable-figures.txt"
python3 crates/durable/bench/rows.py <"$CARGO_TARGET_DIR/durable-figures.txt"
[ -z "${FIGURES_QUICK:-}" ] || echo "This was the quick run: none of these figures belongs into PERF.md."
