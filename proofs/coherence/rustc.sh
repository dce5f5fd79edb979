#!/usr/bin/env bash
# For RUSTC_WRAPPER: compiles everything with the flags that instrument each access to memory, except
# the machine that is told of them.
set -euo pipefail
compiler=$1
shift
name=
previous=
for argument in "$@"; do
    [ "$previous" = --crate-name ] && name=$argument
    previous=$argument
done
if [ "$name" = coherence_machine ]; then
    arguments=()
    for argument in "$@"; do
        [ "$argument" = -Zsanitizer=thread ] || arguments+=("$argument")
    done
    exec "$compiler" "${arguments[@]}" -Cforce-frame-pointers=yes
fi
exec "$compiler" "$@"
