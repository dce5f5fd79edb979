#!/usr/bin/env bash
# Builds what measures, with tokio's alternative timer in it, and runs `rivals` with the arguments given:
# benches/measure.sh --perf. The switch is tokio's own; without it that timer cannot be chosen.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RUSTFLAGS="${RUSTFLAGS:-} --cfg tokio_unstable" cargo build --release --locked \
    --package rivals --package http-bench --package async-scale
exec "${CARGO_TARGET_DIR:-target}/release/rivals" "$@"
