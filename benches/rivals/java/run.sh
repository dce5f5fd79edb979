#!/usr/bin/env bash
# Timers of Java, which many users of this crate come from: Netty's wheel, the DelayScheduler of JDK 25
# and the older ScheduledThreadPoolExecutor, on two workloads of `rivals`. A line of JSON per
# measurement goes to standard output; what cannot be measured is said on standard error.
#
#     benches/rivals/java/run.sh [--threads 1,2] [--runs 3] [--scale 1]
#
# JAVA names the program if it is not found as `java` or below /usr/lib/jvm; it has to be of version 25
# or later. NETTY_JAR names netty-common-4.2.*.jar.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

threads=1 runs=3 scale=1
while [ $# -gt 0 ]; do
    case "$1" in
        --threads) threads="$2" ;;
        --runs) runs="$2" ;;
        --scale) scale="$2" ;;
        *) echo "run.sh: no option is called $1" >&2; exit 2 ;;
    esac
    shift 2
done

# The first number of the version of such a program; 0 if it tells none.
version() {
    local said
    said=$("$1" -XshowSettings:properties -version 2>&1 |
        sed -n 's/^ *java.specification.version = \([0-9]*\).*/\1/p') || true
    echo "${said:-0}"
}

java=
for candidate in "${JAVA:-}" java /usr/lib/jvm/*/bin/java; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null &&
        [ "$(version "$candidate")" -ge 25 ]; then
        java="$candidate"
        break
    fi
done
if [ -z "$java" ]; then
    echo "left out: the timers of Java, because no Java of version 25 or later is installed" >&2
    exit 0
fi
contenders=(delay-scheduler scheduled-pool)
if [ -f "${NETTY_JAR:-}" ]; then
    contenders+=(netty)
else
    echo "left out: netty, because NETTY_JAR does not name netty-common-4.2.*.jar" >&2
fi
for workload in cancel-heavy fire-all; do
    for count in ${threads//,/ }; do
        for _ in $(seq "$runs"); do
            for contender in "${contenders[@]}"; do
                "$java" --class-path "${NETTY_JAR:-.}" Timers.java "$contender" "$workload" "$count" "$scale"
            done
        done
    done
done
