#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# faults.sh - if a rank is killed or stopped, all end in bounded time and name it, and `weft launch` continues to the
# weights of an undisturbed run. tests/long/rank-faults.sh has more cases, and cut links.
# run-tests: 35 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
source tests/mpi/mpi
STEPS=200 source tests/mpi/fault
use_scratch
if ! has openmpi; then
    skip "faults of ranks" "Open MPI is not installed: tools/deps.sh"
    finish
fi

"$weft" train gpt2 "${small[@]}" --out "$scratch/alone" >"$scratch/json" 2>"$scratch/err"
result $? "a run alone"
hash=$(field weights_sha256 <"$scratch/json")

# ended NAME: the last fault was noticed within 30 s, the launcher failed, and rank $victim was named.
ended() {
    echo "# $1: rank $victim at step $at, all ended in $noticed s, code $code"
    ((code != 0)) && ((noticed <= 30)) && names "$victim" "$scratch/err"
    local status=$?
    ((status == 0)) || grep -v ^step "$scratch/err" | tail -n 12 | sed 's/^/# /'
    result $status "$1: all ranks end, the launcher fails, and rank $victim is named"
}

for kind in openmpi mpich; do
    has $kind || continue
    # Directly below the launcher.
    begin "$scratch/stopped-$kind" ranks $kind 4 train gpt2 "${small[@]}" --out "$scratch/stopped-$kind"
    fault STOP || echo "# the run was done before"
    ended "a stopped rank with $kind"
done

for signal in KILL STOP; do
    rm -rf "$scratch/run"
    begin "$scratch/run" "$weft" launch -n 4 -- train gpt2 "${small[@]}" --out "$scratch/run"
    fault $signal || echo "# the run was done before"
    echo "# SIG$signal of rank $victim at step $at: all ended in $noticed s"
    [[ $code == 0 && $(field weights_sha256 <"$scratch/json") == "$hash" ]] && ((noticed <= 30)) &&
        names "$victim" "$scratch/err"
    status=$?
    result $status "weft launch, SIG$signal of rank $victim at step $at: the same weights"
    ((status == 0)) || grep -v ^step "$scratch/err" | tail -n 12 | sed 's/^/# /'
done
[[ $(field weights_sha256 <"$scratch/json") == "$hash" ]] && grep -q 'restarting, 1 of' "$scratch/err"
result $? "it was started again"

# Without progress it gives up.
rm -rf "$scratch/run"
mkdir "$scratch/bin" && printf '#!/bin/sh\nexit 9\n' >"$scratch/bin/mpirun" && chmod +x "$scratch/bin/mpirun"
"$weft" launch -n 4 --mpirun "$scratch/bin/mpirun" -- train gpt2 --out "$scratch/run" 2>"$scratch/err"
(($? == 9)) && (($(grep -c 'the ranks failed' "$scratch/err") == 2)) && grep -q 'no new checkpoint' "$scratch/err"
result $? "a job that fails without progress is started twice, and its code is the exit code"
"$weft" launch -n 4 --min-ranks 2 --mpirun "$scratch/bin/mpirun" -- train gpt2 --out "$scratch/run" 2>"$scratch/err"
(($? == 9)) && [[ $(grep -o 'layout: [0-9]*' "$scratch/err" | tr -dc '0-9') == 4432 ]]
result $? "with --min-ranks on fewer ranks each time"

# Stopping: the ranks save.
rm -rf "$scratch/run"
begin "$scratch/run" "$weft" launch -n 2 -- train gpt2 "${small[@]}" --out "$scratch/run"
kill -TERM "$job"
wait "$job"
(($? == 3)) && grep -q 'stopped by SIGUSR1 after step .*, saved' "$scratch/err"
result $? "SIGTERM to weft launch: the ranks save and stop"
"$weft" launch -n 2 -- train "$scratch/run" --resume "${only[@]}" >"$scratch/json" 2>"$scratch/err"
[[ $(field weights_sha256 <"$scratch/json") == "$hash" ]]
result $? "and continue to the same weights"

# A rank that is alive is waited for: one is slow, and one is stopped for a while.
rm -rf "$scratch/run"
begin "$scratch/run" mpirun.openmpi --oversubscribe --bind-to none -n 1 env WEFT_ISA=base "$weft" train gpt2 "${small[@]}" \
    --out "$scratch/run" : -n 3 "$weft" train gpt2 "${small[@]}" --out "$scratch/run"
find_ranks "$scratch/run"
if ((${#pids[@]} == 4)); then
    kill -STOP "${pids[1]}"
    sleep 2
    kill -CONT "${pids[1]}"
fi
wait "$job"
[[ $? == 0 && $(field weights_sha256 <"$scratch/json") == "$hash" ]]
status=$?
result $status "a slow rank, and one that is stopped for half of the limit, are waited for"
((status == 0)) || grep -v ^step "$scratch/err" | tail -n 12 | sed 's/^/# /'
finish
