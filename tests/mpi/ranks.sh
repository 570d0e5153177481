#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# ranks.sh - training on several ranks with MPI: the same weights, log and files as on one; resuming on a different number
# of ranks; errors. tests/long/ranks.sh has more cases.
# run-tests: 28 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
source tests/mpi/mpi
use_scratch

small=(layers=2 width=32 heads=2 context=32 recall_length=16 steps=12 batch=2 micro_batches=8 dropout=0.1
    checkpoint_every=4 keep=9 eval_samples=32)
small=(--threads 1 --json "${small[@]/#/--set=}")
"$weft" train gpt2 "${small[@]}" --out "$scratch/alone" >"$scratch/json" 2>"$scratch/err"
result $? "alone"
hash=$(field weights_sha256 <"$scratch/json")

# same NAME FOLDER: the last answer has the hash of the run alone; the folder's records and values are its own.
same() {
    [[ $(field weights_sha256 <"$scratch/json") == "$hash" ]]
    result $? "$1: the same weights"
    cmp <(records "$scratch/alone") <(records "$2") >&2
    result $? "$1: the same log"
    for file in model optimizer; do # without the header, whose length the first 8 bytes are
        for folder in "$scratch/alone" "$2"; do
            path=$folder/step-000000012/$file.safetensors
            tail -c +$((9 + $(od -An -tu8 -N8 "$path"))) "$path" | sha256sum
        done
    done | uniq | wc -l | grep -qx 2
    result $? "$1: the same values in its files"
}

for kind in openmpi mpich; do
    if ! has $kind; then
        skip "ranks with $kind" "it is not installed: tools/deps.sh"
        continue
    fi
    for number in 2 3 4; do
        WEFT_TEST_SKIP_GATES=$((number < 4)) ranks $kind $number train gpt2 "${small[@]}" --out "$scratch/$kind$number" >"$scratch/json" 2>"$scratch/err" ||
            tail -n 5 "$scratch/err"
        same "$number ranks with $kind" "$scratch/$kind$number"
        [[ $(field ranks <"$scratch/json") == "$number" ]]
        result $? "it prints $number ranks"
    done
    "$weft" audit "$scratch/${kind}4" >/dev/null 2>"$scratch/err"
    result $? "an audit alone of 4 ranks with $kind"

    rm -r "$scratch/${kind}3"/step-0000000{08,12}
    ranks $kind 4 train "$scratch/${kind}3" --resume --threads 1 --json >"$scratch/json" 2>"$scratch/err"
    grep -q 'resuming .* from step 4' "$scratch/err"
    result $? "3 ranks with $kind, resumed on 4"
    same "3 ranks with $kind, resumed on 4" "$scratch/${kind}3"
    rm -r "$scratch/${kind}3"/step-0000000{08,12}
    "$weft" train "$scratch/${kind}3" --resume --threads 1 --json >"$scratch/json" 2>"$scratch/err"
    same "3 ranks with $kind, resumed alone" "$scratch/${kind}3"

    # All ranks skip a damaged checkpoint, whichever rank owns the damaged part.
    rm -r "$scratch/${kind}3/step-000000012"
    printf 'damage' | dd of="$scratch/${kind}3/step-000000008/optimizer.safetensors" bs=1 seek=40000 conv=notrunc 2>/dev/null
    ranks $kind 2 train "$scratch/${kind}3" --resume --threads 1 --json >"$scratch/json" 2>"$scratch/err"
    grep -q 'skipping the damaged checkpoint .*step-000000008' "$scratch/err" && grep -q 'from step 4' "$scratch/err"
    result $? "a damaged checkpoint is skipped with $kind"
    same "and the one before is used" "$scratch/${kind}3"

    ranks $kind 3 train gpt2 "${small[@]}" --set micro_batches=2 >/dev/null 2>"$scratch/err"
    (($? != 0)) && grep -q '3 ranks share the 2 groups' "$scratch/err"
    result $? "more ranks than groups are rejected with $kind"
done

if has openmpi && has mpich; then
    # With a launcher of a different MPI, each process is alone in its world.
    mkdir "$scratch/modules"
    cp "$(dirname "$weft")/weft-openmpi.so" "$scratch/modules/weft-mpich.so"
    WEFT_MODULES=$scratch/modules ranks mpich 2 train gpt2 "${small[@]}" >/dev/null 2>"$scratch/err"
    (($? != 0)) && grep -q "the launcher started 2 processes, but MPI sees 1" "$scratch/err"
    result $? "a launcher of a different MPI is an error"
fi
if has openmpi; then
    # Ranks that do not ask for the same.
    WEFT_RANKS='' mpirun.openmpi --oversubscribe --bind-to none -n 1 "$weft" train gpt2 "${small[@]}" : \
        -n 1 "$weft" train gpt2 "${small[@]}" --set lr=0.5 >/dev/null 2>"$scratch/err"
    (($? != 0)) && grep -q "rank 1 of 2: its config differs from rank 0's" "$scratch/err"
    result $? "ranks with different options are an error"
fi
if has openmpi; then
    # A study whose runs have two ranks each, and its array job.
    cat >"$scratch/study" <<'END'
CONFIG_WEFT_PRESET="gpt2"
CONFIG_WEFT_ARMS="dot: geom=dot"
CONFIG_WEFT_LAYERS=1
CONFIG_WEFT_WIDTH=32
CONFIG_WEFT_HEADS=2
CONFIG_WEFT_CONTEXT=16
CONFIG_WEFT_RECALL_LENGTH=8
CONFIG_WEFT_BATCH=2
CONFIG_WEFT_MICRO_BATCHES=4
CONFIG_GPT2_MAX_ITERS=20
CONFIG_WEFT_EVAL_SAMPLES=16
CONFIG_WEFT_SEEDS=2
END
    study() { "$weft" ablate --config "$scratch/study" --threads 1 --set slots=1 --out "$scratch/$@" >"$scratch/json" 2>"$scratch/err"; }
    ledger() { sed -E 's/.*"seed": ([0-9]*),.*"weights_sha256": "([0-9a-f]*)".*/\1 \2/' "$scratch/$1/runs.jsonl" | sort; }
    study study-alone
    study study-ranks --launch "$weft launch -n 2 --" && [[ $(field ranks <"$scratch"/study-ranks/runs/dot/*-seed-2/result.json) == 2 ]] &&
        cmp -s <(ledger study-alone) <(ledger study-ranks)
    result $? "a study whose runs have two ranks each has the weights of one without"
    study study-array --slurm --launch 'mpirun.openmpi --oversubscribe --bind-to none -n 2' &&
        for task in 0 1; do
            SLURM_CPUS_PER_TASK=1 SLURM_ARRAY_TASK_ID=$task bash "$scratch/study-array/study.sbatch" >"$scratch/json" 2>"$scratch/err"
        done
    cmp -s <(ledger study-alone) <(ledger study-array)
    result $? "and so has an array job of such runs"
fi
WEFT_RANKS=2 WEFT_MODULES=$scratch "$weft" train gpt2 "${small[@]}" >/dev/null 2>"$scratch/err"
(($? == 1)) && grep -q 'MPI' "$scratch/err"
result $? "ranks without MPI are rejected"
finish
