#!/usr/bin/env bash
# Measures what PERF.md says of the embedded stores, in one run: durable/bench/run.sh. It needs a quiet
# machine, beanstalkd for its row, and 2.5 GB in the directory of TMPDIR, on a disk that syncs.
# With --quick, everything runs once in small sizes: that it runs is all that it shows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

rounds=3 timers=10000000 reminders=100000 kills=600 others=(5)
if [ "${1:-}" = --quick ]; then
    rounds=1 timers=10000 reminders=1000 kills=12 others=(1 quick)
fi

# Before anything is measured.
cargo build --release --locked -p tickless-durable --example figures --example reminders
cargo test --release --locked -p tickless-durable --test kill --no-run
cargo build --release --locked --manifest-path durable/bench/Cargo.toml

echo "$(nproc) processors, Linux $(uname -r), $(rustc --version), load $(cut -d' ' -f1-3 /proc/loadavg)"
for _ in $(seq "$rounds"); do
    cargo run --release --locked -p tickless-durable --example figures
done
cargo run --release --locked -p tickless-durable --example figures memory "$timers"
cargo run --release --locked -p tickless-durable --example reminders -- --reminders "$reminders"
DURABLE_KILLS=$kills cargo test --release --locked -p tickless-durable --test kill -- --nocapture
cargo run --release --locked --manifest-path durable/bench/Cargo.toml -- "${others[@]}"
