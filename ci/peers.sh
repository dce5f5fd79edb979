#!/usr/bin/env bash
# The tests that other timers have published, with ours in the place of theirs (ci/peers), on engines
# of three kinds. Each passes, or stands in ci/peers/differences.txt with the sentence of
# docs/porting.md that says why. The other way round, what stands there does not pass. Arguments are the
# engines (threads, tokio, paused), all by default.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_nextest
ci/peers.py "$@"
