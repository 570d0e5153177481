#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# resume.sh - runs that are killed again and again, and go on, come to the weights and the log of one never killed:
# killed at any moment, within the writing of a checkpoint, or with the power (shim.c); with other numbers of threads.
# Those whose disk fails or is full end with an error, those that are interrupted while they write go on by themselves.
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

ways=(fail full short kill cut torn)
declare -A hits=() wrong=()

# Whether it ended as it has to when the disk did so.
as_it_should() { # FOLDER WAY STATUS
    case $2 in
    fail | full) if [[ -e $1.failed ]]; then (($3 == 1)); else (($3 == 0)); fi ;;
    short) (($3 == 0)) ;;
    *) (($3 == 137 || $3 == 0)) ;;
    esac
}

# Goes wrong at one of the calls that change files; its status tells whether it came to the end all the same.
hit() { # FOLDER WAY
    rm -f "$1.failed"
    (
        export LD_PRELOAD=$shim WEFT_FAULT_UNDER=$1 WEFT_FAULT_AT=$((RANDOM % 500 + 1))
        WEFT_FAULT_HOW=$2 train "$1" $((RANDOM % 3 + 1)) >"$scratch/json"
    )
    local status=$?
    hits[$2]=$((${hits[$2]:-0} + 1))
    as_it_should "$1" "$2" $status || wrong[$2]+="$status "
    return $status
}

# Kills it after a while, or hits it.
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
result $? "the power takes no checkpoint that was done, nor the new folders around it"
timeless "$scratch/whole" >"$scratch/log"
names=$(ls "$scratch/whole" | tr '\n' ' ')
events=$(stat -c %s "$scratch/whole"/events*)
kills=0
for ((i = 1; i <= ${WEFT_KILLED_RUNS:-20}; i++)); do
    run=$scratch/run-$i
    for ((n = 0; n < 6; n++)); do
        if ((n)); then killed "$run"; else hit "$run" "${ways[i % 6]}"; fi 2>/dev/null && break # all ways have their turn
        kills=$((kills + 1))
    done
    ((n < 6)) || (train "$run" 1 >"$scratch/json")
    [[ $(weights <"$scratch/json") == "$whole" ]] && timeless "$run" | cmp -s - "$scratch/log" &&
        [[ $(ls "$run" | tr '\n' ' ') == "$names" && $(stat -c %s "$run"/events*) == "$events" ]]
    status=$?
    result $status "killed $n times"
    ((status == 0)) || { diff <(timeless "$run") "$scratch/log"; ls -a "$run"; tail -n 5 "$scratch/err"; } | sed 's/^/# /'
    rm -rf "$run" "$run".*
done
for way in "${ways[@]}"; do
    ((${hits[$way]:-0} > 0)) && [[ -z ${wrong[$way]:-} ]]
    result $? "$way: ${hits[$way]:-0} runs ended as they should${wrong[$way]:+, but for those with ${wrong[$way]}}"
done
((kills > i))
result $? "$kills kills and failures in all"
finish
