#!/usr/bin/env bash
# The proofs at length: the stages that look for lost timers, races and wrong answers, in sizes
# that continuous integration has no time for. Allow it a night. Arguments choose stages; without
# any it runs them all and ends with a line that counts them. Sizes, in the environment:
#   TICKLESS_TEST_SCALE   how much more the tests do than in CI (200: ten million pending timers,
#                         which takes 2 GB; an eighth of it under the sanitizers)
#   MORE_PREEMPTIONS      preemptions per interleaving beyond what each model names
#   TICKLESS_SCHEDULES    random schedules of each kind for each body
#   SECONDS_EACH          for each fuzz target
#   DURABLE_KILLS         how often a process with durable timers is killed, for each store
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

scale="${TICKLESS_TEST_SCALE:-200}"
export MORE_PREEMPTIONS="${MORE_PREEMPTIONS:-1}"
export TICKLESS_SCHEDULES="${TICKLESS_SCHEDULES:-100000}"
export SECONDS_EACH="${SECONDS_EACH:-1800}"
export DURABLE_KILLS="${DURABLE_KILLS:-500}"
export LONG=1

stages=("$@")
[ $# -gt 0 ] || stages=(release clippy asan tsan capi shuttle loom fuzz proofs targets durable mutants)

passed=0
failed=()
for stage in "${stages[@]}"; do
    printf '\n=== %s ===\n' "$stage"
    case $stage in
        asan | tsan) export TICKLESS_TEST_SCALE=$(((scale + 7) / 8)) ;;
        # Under qemu, and with the memory that 32 bits reach.
        targets) export TICKLESS_TEST_SCALE=1 ;;
        *) export TICKLESS_TEST_SCALE=$scale ;;
    esac
    begun=$SECONDS
    if "ci/$stage.sh" </dev/null 2>&1; then
        passed=$((passed + 1))
        verdict=passed
    else
        failed+=("$stage")
        verdict=failed
    fi
    printf '=== %s %s, %d s\n' "$stage" "$verdict" $((SECONDS - begun))
done

echo "$passed passed, ${#failed[@]} failed ${failed[*]}"
[ "${#failed[@]}" = 0 ]
