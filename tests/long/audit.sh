#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# audit.sh - audits a recall study of 6 runs, trained with two threads at the best level of this processor, with one
# thread at level v3: all of it, and one of the ten segments of every run. Prints the cost of a tenth relative to the whole
# and to training, all measured with one thread at one level.
set -u
source tests/tap
use_scratch
cp tests/fixtures/recall "$scratch" && cd "$scratch" || exit 1

"$weft" ablate --config recall --seeds 3 --set checkpoint_every=40 --set keep=10 --threads 2 --out study >/dev/null 2>err
result $? "a study of 6 runs is trained"
calculate() { awk "BEGIN { printf \"%.3f\", $1 }"; }
# audit NAME ARGUMENTS...: the seconds it takes, in NAME
audit() {
    local start=$EPOCHREALTIME status
    WEFT_ISA=v3 "$weft" audit study --threads 1 --json "${@:2}" >json 2>err
    status=$?
    printf -v "$1" %s "$(calculate "$EPOCHREALTIME - $start")"
    [[ $status == 0 && $(field runs <json) == 6 && $(field failed <json) == 0 && $(field segments <json) == 60 ]]
    result $? "audited at level v3 with one thread: $(cat json)"
}
audit whole
audit tenth --segments 1
run=$(echo study/runs/w2/*seed-1)
start=$EPOCHREALTIME
WEFT_ISA=v3 "$weft" train "$run/config.json" --threads 1 --unsafe --out again --json >json 2>err
one=$(calculate "$EPOCHREALTIME - $start - $(field gates_seconds <json)")
printf '{"audit_seconds": %s, "audit_tenth_seconds": %s, "tenth_of_whole": %s, "train_seconds": %s}\n' "$whole" "$tenth" \
    "$(calculate "$tenth / $whole")" "$(calculate "6 * $one")"
finish
