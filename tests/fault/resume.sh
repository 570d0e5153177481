#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# resume.sh - runs that are killed many times and resumed end with the same weights and log as a run that is never killed:
# killed at any moment, while writing a checkpoint, or by a power failure (shim.c), and with different numbers of threads.
# A run whose disk fails or is full ends with an error; a run whose writes are interrupted continues.
# WEFT_KILLED_RUNS sets the number of runs, 20 by default.
# run-tests: 14 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
shim=$(dirname "$weft")/tests/fault/shim.so
[[ -e $shim ]] || { echo "skip: there is no $shim" && exit 77; }
use_scratch "$([[ -w /dev/shm ]] && echo /dev/shm || echo /tmp)"
RANDOM=1

sizes=(task=recall recall_length=8 layers=2 width=32 heads=2 batch=4 dropout=0.1 steps=60 warmup=10 eval_samples=8 eval_every=15
    log_every=7 diagnose_every=20 checkpoint_every=5 optim=adamwspam spam_interval=25)
sizes=("${sizes[@]/#/--set=}")
train() { # FOLDER THREADS: prints the run's JSON; replaces the shell
    exec "$weft" train gpt2 --json "${sizes[@]}" --out "$1" --resume --threads "$2" 2>>"$scratch/err"
}
weights() { sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p'; }
# The records that are functions of the step, without their chain, after the chain was checked.
timeless() { python3 tests/cli/chain.py "$1/log.jsonl" && grep -v '"environment": ' "$1/log.jsonl" | sed 's/, "chain": .*//'; }

ways=(fail full short kill cut torn)
declare -A hits=() wrong=()

# Whether the exit status is right for this kind of failure.
ended_well() { # FOLDER WAY STATUS
    case $2 in
    fail | full) if [[ -e $1.failed ]]; then (($3 == 1)); else (($3 == 0)); fi ;;
    short) (($3 == 0)) ;;
    *) (($3 == 137 || $3 == 0)) ;;
    esac
}

# Runs with a failure at a random call that changes files. Returns the exit status: 0 if the run still completed.
hit() { # FOLDER WAY
    rm -f "$1.failed"
    (
        export LD_PRELOAD=$shim WEFT_FAULT_UNDER=$1 WEFT_FAULT_AT=$((RANDOM % 500 + 1))
        WEFT_FAULT_HOW=$2 train "$1" $((RANDOM % 3 + 1)) >"$scratch/json"
    )
    local status=$?
    hits[$2]=$((${hits[$2]:-0} + 1))
    ended_well "$1" "$2" $status || wrong[$2]+="$status "
    return $status
}

# Kills the run at a random time, or makes a call fail.
killed() { # FOLDER
    if ((RANDOM % 2)); then
        train "$1" $((RANDOM % 3 + 1)) >"$scratch/json" &
        sleep "0.$(printf %03d $((RANDOM % 600)))"
        kill -KILL $!
        wait $!
    else
        hit "$1" "${ways[RANDOM % 6]}"
    fi
}

whole=$(train "$scratch/whole" 2 | weights)
[[ ${#whole} == 64 && $(wc -l <"$scratch/whole/log.jsonl") -gt 20 ]]
result $? "a run that is never killed"
mkdir "$scratch/disk"
cut() {
    (
        export LD_PRELOAD=$shim WEFT_FAULT_UNDER=$scratch/disk WEFT_FAULT_AT=300 WEFT_FAULT_HOW=cut
        train "$scratch/disk/a/run" 1 >/dev/null
    )
}
cut 2>/dev/null
[[ $? == 137 && -d $scratch/disk/a/run/step-000000005 ]]
result $? "a power failure loses no completed checkpoint and no parent folder"
timeless "$scratch/whole" >"$scratch/log"
cp -r "$scratch/whole" "$scratch/late" && cp -r "$scratch/late/step-000000055" "$scratch/late/step-000000050" &&
    mkdir "$scratch/late/.removing-000000045" && touch "$scratch/late/.removing-000000045/config.json"
(train "$scratch/late" 1 >/dev/null) && [[ $(ls -A "$scratch/late") == $(ls -A "$scratch/whole") ]]
result $? "a run killed after its last checkpoint, while earlier ones were removed"
names=$(ls "$scratch/whole" | tr '\n' ' ')
events=$(stat -c %s "$scratch/whole"/events*)
kills=0
for ((i = 1; i <= ${WEFT_KILLED_RUNS:-20}; i++)); do
    run=$scratch/run-$i
    for ((n = 0; n < 6; n++)); do
        if ((n)); then killed "$run"; else hit "$run" "${ways[i % 6]}"; fi 2>/dev/null && break # each way is the first in some run
        kills=$((kills + 1))
    done
    ((n < 6)) || (train "$run" 1 >"$scratch/json")
    [[ $(weights <"$scratch/json") == "$whole" ]] && timeless "$run" | cmp -s - "$scratch/log" &&
        cmp -s "$run/items.safetensors" "$scratch/whole/items.safetensors" &&
        [[ $(ls "$run" | tr '\n' ' ') == "$names" && $(stat -c %s "$run"/events*) == "$events" ]]
    status=$?
    result $status "killed $n times"
    ((status == 0)) || { diff <(timeless "$run") "$scratch/log"; ls -a "$run"; tail -n 5 "$scratch/err"; } | sed 's/^/# /'
    rm -rf "$run" "$run".*
done
for way in "${ways[@]}"; do
    ((${hits[$way]:-0} > 0)) && [[ -z ${wrong[$way]:-} ]]
    result $? "$way: ${hits[$way]:-0} runs ended as expected${wrong[$way]:+, except those with status ${wrong[$way]}}"
done
((kills > i))
result $? "$kills kills and failures in total"
finish
