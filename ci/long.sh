#!/usr/bin/env bash
# The long run: everything that the gate (.ci/run) has no time for, at its full size. It takes some
# hours. One that was ended goes on where it ended: what has passed on this commit is not run again,
# unless arguments name it. A stage is a script in ci/, or the run.sh of a folder of proofs/, and
# runs by itself as well. `target/long/summary.txt` has commit, date, stage, verdict and seconds of the
# last run of each. Sizes, in the environment:
#   TICKLESS_TEST_SCALE   which part of their full size the tests do, in all stages. Without it: 0.05, and 20 in
#                         optimized (a million pending timers), 0.3 in targets and rivals, 0.15 in servers, 0.1 in
#                         hostile, and a part of 0.15 in asan and tsan
#   MORE_PREEMPTIONS      preemptions per interleaving beyond what each model names (1)
#   LOOM_MAX_PREEMPTIONS  the most that any model gets (3)
#   TICKLESS_SCHEDULES    random schedules of each kind for each body
#   SECONDS_EACH          for each fuzz target
#   DURABLE_KILLS         how often a process with durable timers is killed, for each store
#   PART, SHARD           of how many parts of the mutants one is tried (60), and which (by chance)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

STAGES=(clippy_all oldest no_std demo clients peers servers capi packages browser bench instructions rivals optimized release hostile asan tsan loom)
STAGES+=(shuttle fuzz specs arithmetic histories coherence targets miri mutants)

export LONG=1
export MORE_PREEMPTIONS="${MORE_PREEMPTIONS:-1}" LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
export TICKLESS_SCHEDULES="${TICKLESS_SCHEDULES:-5000}" SECONDS_EACH="${SECONDS_EACH:-60}"
export DURABLE_KILLS="${DURABLE_KILLS:-50}"

mkdir -p target/long
summary=target/long/summary.txt
touch "$summary"
commit=$(git describe --always --dirty --abbrev=10)
stages=("$@")
if [ $# = 0 ]; then
    mapfile -t stages < <(printf '%s\n' "${STAGES[@]}" |
        grep -vxF -f <(sed -nE "s/^$commit [^ ]+ ([^ ]+) passed .*/\1/p" "$summary") || true)
    echo "${#stages[@]} of ${#STAGES[@]} stages are left for $commit"
fi
failed=()
for stage in "${stages[@]}"; do
    command=ci/$stage.sh
    [ -x "$command" ] || command=proofs/$stage/run.sh
    [ -x "$command" ] || fail "there is no stage $stage"
    printf '\n=== %s ===\n' "$stage"
    begun=$SECONDS verdict=passed
    "$command" </dev/null 2>&1 | tee "target/long/$stage.log" || verdict=failed
    [ "$verdict" = passed ] || failed+=("$stage")
    line="$commit $(date -I) $stage $verdict $((SECONDS - begun)) s"
    { grep -vE "(^| )$stage (passed|failed|left out:)" "$summary" || true; echo "$line"; } >"$summary.new"
    { grep '^left out: ' "target/long/$stage.log" || true; } | sort -u | sed "s/^/$stage /" >>"$summary.new"
    mv "$summary.new" "$summary"
    echo "=== $line"
done
printf '\n=== summary ===\n'
cat "$summary"
echo "$((${#stages[@]} - ${#failed[@]})) passed, ${#failed[@]} failed ${failed[*]}"
[ "${#failed[@]}" = 0 ]
