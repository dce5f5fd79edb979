#!/usr/bin/env bash
# Every test that does not look at real time passes on one processor beside four busy loops, while its
# processes are stopped for 3 s at random moments. Arguments choose tests, as for `cargo test`.

# As cargo's runner of test programs: stops one, and its children, until it ends.
if [ "${1:-}" = --run ]; then
    setsid taskset -c 0 "${@:2}" &
    # Most programs are over after some seconds.
    until timeout "$((RANDOM % 6)).$RANDOM" tail --pid=$! --sleep-interval=0.1 -f /dev/null; do
        kill -STOP -- -$! && sleep 3 && kill -CONT -- -$!
    done
    wait $!
    exit
fi
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export TICKLESS_TEST_SCALE="${TICKLESS_TEST_SCALE:-0.1}"
tests=("$@")
[ $# -gt 0 ] || tests=("${ENGINE[@]}" --package={tickless-demo,tickless-c,tickless-durable,race-tests,loom-tests,histories}
    --tests --test races)
cargo test --locked "${tests[@]}" --no-run
for _ in 1 2 3 4; do
    taskset -c 0 sh -c 'while :; do :; done' &
    trap 'kill $(jobs -p)' EXIT
done
some_tests cargo test --locked "${tests[@]}" \
    --config "target.'cfg(unix)'.runner=['$PWD/ci/hostile.sh', '--run']"
