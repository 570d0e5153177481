#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# ranks.sh - compares weights, stream and log of five models after 50 steps on 1, 2, 3, 4 and 8 ranks x 1 and 2 threads
# with Open MPI, and on 3 ranks with MPICH, with a single process. Prints how many were compared and how many
# differ.
set -u
source tests/tap
source tests/mpi/mpi
use_scratch
if ! has openmpi || ! has mpich; then
    skip "ranks with Open MPI and MPICH" "they are not installed: tools/deps.sh"
    finish
fi

common=(--json --set layers=2 --set width=48 --set heads=4 --set context=32 --set recall_length=16 --set steps=50)
common+=(--set batch=2 --set micro_batches=8 --set dropout=0.1 --set eval_samples=32 --set log_every=1)
models=("gpt2 geom=dot" "gpt2 geom=w2 pos=rope m1=yes m2=yes m3=yes" "ws ws_lambda_z=0.1 ws_lambda_c=0.1"
    "llama attn=latent latent_width=16 dtype=bf16 grad_groups=8"
    "gpt2 geom=overlap optim=adamwspam m3=yes output_gate=yes dtype=bf16")
compared=0 differ=0

# compare NAME: the run in $scratch/run against the one in $scratch/alone.
compare() {
    ((compared++))
    if [[ $(field weights_sha256 <"$scratch/json") == "$hash" ]] && cmp -s <(records "$scratch/alone") <(records "$scratch/run")
    then
        echo "# $1: same"
    else
        echo "# $1: DIFFERS"
        tail -n 3 "$scratch/err"
        ((differ++))
    fi
    rm -rf "$scratch/run"
}

for model in "${models[@]}"; do
    words=(train "${model%% *}")
    for one in ${model#* }; do words+=(--set "$one"); done
    rm -rf "$scratch/alone"
    "$weft" "${words[@]}" "${common[@]}" --threads 1 --out "$scratch/alone" >"$scratch/json" 2>"$scratch/err" ||
        { tail -n 3 "$scratch/err"; result 1 "$model alone"; continue; }
    hash=$(field weights_sha256 <"$scratch/json")
    for number in 1 2 3 4 8; do
        for threads in 1 2; do
            ranks openmpi $number "${words[@]}" "${common[@]}" --threads $threads --out "$scratch/run" \
                >"$scratch/json" 2>"$scratch/err"
            compare "$model, $number ranks x $threads threads"
        done
    done
    ranks mpich 3 "${words[@]}" "${common[@]}" --threads 1 --out "$scratch/run" >"$scratch/json" 2>"$scratch/err"
    compare "$model, 3 ranks with MPICH"
done
echo "{\"compared\": $compared, \"differ\": $differ}"
((compared == 55 && differ == 0))
result $? "any number of ranks and threads, the same hashes and logs"
finish
