#!/usr/bin/env bash
# Programs of others talk over sockets, with timers of ours; the programs of the pages that compare timers, once more
# with tokio's unstable part; and what is shown of quinn's runtime, which the gate does not build.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

some_tests cargo test -p client-tests
some_tests cargo test --doc -p tickless -p client-tests --features tickless/quinn quinn
export CARGO_TARGET_DIR=target/unstable
RUSTFLAGS="--cfg tokio_unstable" RUSTDOCFLAGS="--cfg tokio_unstable" some_tests cargo test --doc -p client-tests
