#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# plan.sh - compares the time of a step on 1, 2, 4 and 8 ranks of this host, and on two hosts (network namespaces,
# TCP) over a link of 1 Gbit/s, with the prediction of `weft plan` from the network measured by `weft bench network` and
# the micro-batch measured by `weft bench train`; medians of three rounds, ratios within a round. Also checks that the
# weights match a single process, and measures how much of the communication over the slow link is overlapped with
# the backward pass. Prints JSON. Needs root and iproute2 for the two hosts, and an otherwise idle machine.
set -u
source tests/tap
source tests/mpi/mpi
use_scratch
net=weft$$
trap 'tests/mpi/hosts "$net" down; rm -rf "$scratch"' EXIT
if ! has openmpi; then
    skip "ranks" "Open MPI is not installed: tools/deps.sh"
    finish
fi
model=(gpt2-mini --set context=256 --set batch=1 --set micro_batches=8)
train=(train "${model[@]}" --set task=recall --set recall_length=128 --set steps=8 --set eval_samples=4 --threads 1 --json
    --stall 60)
tokens=$((8 * 256))
calc() { awk "BEGIN { printf \"%.4g\n\", $1 }"; }
median() { sort -g "$scratch/$1" | sed -n 2p; } # median of three numbers
hosts() {                                       # RANKS WORDS...: half of them on each host
    tests/mpi/hosts "$net" run mpirun.openmpi --bind-to none --mca btl_tcp_if_include link0 \
        --host "10.77.0.1:$(($1 / 2)),10.77.0.2:$(($1 / 2))" -n "$1" "$weft" "${@:2}"
}
here() { ranks openmpi "$@"; } # RANKS WORDS...

"$weft" "${train[@]}" >"$scratch/json" 2>"$scratch/err"
hash=$(field weights_sha256 <"$scratch/json")
differ=0
# run WHERE RANKS: trains, and compares the weights.
run() {
    "$1" "$2" "${train[@]}" >"$scratch/json" 2>"$scratch/err"
    [[ $(field weights_sha256 <"$scratch/json") == "$hash" ]] && return
    ((differ++))
    tail -n 5 "$scratch/err" | sed 's/^/# /'
}

# Ranks share the cores of this host, so a micro-batch is timed while the other ranks also compute.
time_micro_batch() { # RANKS
    for ((r = 0; r < $1; r++)); do
        "$weft" bench train --preset "${model[@]:0:5}" --threads 1 --seconds 8 --json >"$scratch/bench-$r" 2>/dev/null &
    done
    wait
    for ((r = 0; r < $1; r++)); do field step_seconds <"$scratch/bench-$r"; done | awk '{ s += $1 } END { printf "%.4g\n", s / NR }'
}

# compare NAME WHERE RANKS: three rounds, plans and steps in turn.
compare() {
    for round in 1 2 3; do
        network=1,1
        if (($3 > 1)); then
            "$2" "$3" bench network --seconds 6 --json >"$scratch/network" 2>"$scratch/err"
            network=$(field gb_per_s <"$scratch/network"),$(field message_us <"$scratch/network")
        fi
        micro=$(time_micro_batch "$3")
        "$weft" plan "${model[@]}" --ranks "$3" --threads 1 --network "$network" --micro-batch "$micro" --disk 1 --json \
            >"$scratch/plan" 2>"$scratch/err"
        run "$2" "$3"
        field step_s <"$scratch/plan" >>"$scratch/$1-plan"
        calc "$tokens / $(field tokens_per_s <"$scratch/json")" >>"$scratch/$1-step"
        (($3 == 1)) || calc "$(field comm_hidden_s <"$scratch/json") / $(field comm_s <"$scratch/json")" >>"$scratch/$1-hidden"
        echo "# $1, round $round: network $network GB/s,us; micro-batch $micro s; planned $(tail -n 1 "$scratch/$1-plan") s," \
            "measured $(tail -n 1 "$scratch/$1-step") s"
        tr ',' '\n' <"$scratch/plan" | grep -E 'compute_s|comm_s|hidden|update' | xargs | sed 's/^/# plan: /'
        tr ',' '\n' <"$scratch/json" | grep -E 'comm_|"seconds|tokens_per' | xargs | sed 's/^/# run: /'
    done
    paste "$scratch/$1-step" "$scratch/$1-plan" | awk '{ printf "%.4g\n", $1 / $2 }' >"$scratch/$1-ratio"
    ratio=$(median "$1-ratio")
    json+="\"step_s_$1\": $(median "$1-step"), \"planned_s_$1\": $(median "$1-plan"), \"ratio_$1\": $ratio, "
    awk "BEGIN { exit !($ratio > 0.8 && $ratio < 1.2) }"
    result $? "$1: a step takes what is planned, within 20 % ($ratio)"
}

json='{'
for number in 1 2 4 8; do
    compare "ranks_$number" here $number
done
if tests/mpi/hosts "$net" up 2>"$scratch/err"; then
    for number in 2 4; do run hosts $number; done
    tests/mpi/hosts "$net" slow 1gbit
    compare link hosts 2
    json+="\"share_hidden\": $(median link-hidden), "
else
    skip "two hosts" "they cannot be made: $(head -n 1 "$scratch/err")"
fi
echo "$json\"differ\": $differ}"
((differ == 0))
result $? "the same weights everywhere"
finish
