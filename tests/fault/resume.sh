#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# resume.sh - runs that are killed again and again, and go on, come to the weights and the log of one never killed:
# killed at any moment, within the writing of a checkpoint, or with the power (shim.c); with other numbers of threads.
# WEFT_KILLED_RUNS is how many, 20 if not set.
set -u
source tests/tap
weft=$(realpath "${WEFT:-build/weft}")
shim=$(realpath "$(dirname "$(realpath "$weft")")/tests/fault/shim.so")
[[ -e $shim ]] || { echo "skip: there is no $shim" && exit 77; }
scratch=$(mktemp -d -p "$([[ -w /dev/shm ]] && echo /dev/shm || echo /tmp)")
trap 'rm -rf "$scratch"' EXIT
RANDOM=1

sizes=()
for setting in task=recall recall_length=8 layers=2 width=32 heads=2 batch=4 dropout=0.1 steps=60 warmup=10 \
    eval_samples=8 eval_every=15 log_every=7 diagnose_every=20 checkpoint_every=5 optim=adamwspam spam_interval=25; do
    sizes+=(--set $setting)
done
train() { # FOLDER THREADS: the run's JSON; takes the place of the shell
    exec "$weft" train gpt2 --json "${sizes[@]}" --out "$1" --resume --threads "$2" 2>>"$scratch/err"
}
weights() { sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p'; }
timeless() { sed -E 's/, "(tokens_per_s|seconds)":.*//' "$1/log.jsonl"; }

# Kills it after a while, or at one of the calls that change files; its status tells whether it came to the end.
killed() { # FOLDER
    local threads=$((RANDOM % 3 + 1)) ways=(kill cut torn)
    if ((RANDOM % 2)); then
        train "$1" $threads >"$scratch/json" &
        sleep "0.$(printf %03d $((RANDOM % 600)))"
        kill -KILL $!
        wait $!
    else
        (
            export LD_PRELOAD=$shim WEFT_FAULT_UNDER=$1 WEFT_FAULT_AT=$((RANDOM % 500 + 1))
            WEFT_FAULT_HOW=${ways[RANDOM % 3]} train "$1" $threads >"$scratch/json"
        )
    fi 2>/dev/null
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
result $? "the power takes no checkpoint that was done, nor the new folders around it"
timeless "$scratch/whole" >"$scratch/log"
names=$(ls "$scratch/whole" | tr '\n' ' ')
events=$(stat -c %s "$scratch/whole"/events*)
kills=0
for ((i = 1; i <= ${WEFT_KILLED_RUNS:-20}; i++)); do
    run=$scratch/run-$i
    for ((n = 0; n < 6; n++)); do
        killed "$run" && break
        kills=$((kills + 1))
    done
    ((n < 6)) || (train "$run" 1 >"$scratch/json")
    [[ $(weights <"$scratch/json") == "$whole" ]] && timeless "$run" | cmp -s - "$scratch/log" &&
        [[ $(ls "$run" | tr '\n' ' ') == "$names" && $(stat -c %s "$run"/events*) == "$events" ]]
    status=$?
    result $status "killed $n times"
    ((status == 0)) || { diff <(timeless "$run") "$scratch/log"; ls -a "$run"; tail -n 5 "$scratch/err"; } | sed 's/^/# /'
    rm -rf "$run"
done
((kills > i))
result $? "$kills kills in all"
finish
