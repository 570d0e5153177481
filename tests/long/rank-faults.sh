#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# rank-faults.sh - kills a random rank of 4 at a random moment WEFT_KILLS times (100), and cuts the link between two hosts
# WEFT_CUTS times (20). All ranks must end within 30 s, the message must name the rank, or one of the host that is cut
# off, and `weft launch` must then end with the weights of an undisturbed run. Prints the counts as JSON. Links need root
# and iproute2.
set -u
source tests/tap
source tests/mpi/mpi
source tests/mpi/fault
use_scratch
net=weft$$
trap 'tests/mpi/hosts "$net" down; rm -rf "$scratch"' EXIT
if ! has openmpi; then
    skip "faults of ranks" "Open MPI is not installed: tools/deps.sh"
    finish
fi
"$weft" train gpt2 "${small[@]}" --out "$scratch/alone" >"$scratch/json" 2>"$scratch/err"
hash=$(field weights_sha256 <"$scratch/json")
declare -A count=()
longest=0 late=0

# judge KIND RANKS: counts the last fault; one of the ranks, a pattern, must be named.
judge() {
    local good=1
    ((longest = noticed > longest ? noticed : longest))
    ((count[$1] += 1))
    if ((noticed <= 30)); then ((count[$1_in_time] += 1)); else good=0; fi
    if names "$2" "$scratch/err"; then ((count[$1_named] += 1)); else good=0; fi
    if [[ $code == 0 && $(field weights_sha256 <"$scratch/json") == "$hash" ]]; then
        ((count[$1_same_weights] += 1))
    else
        good=0
    fi
    echo "# $1 ${count[$1]}: rank $2 at step $at, all ended in $noticed s, then code $code"
    ((good)) || grep -v ^step "$scratch/err" | tail -n 40 | sed 's/^/# /'
    rm -rf "$scratch/run"
}

kills=${WEFT_KILLS:-100} cuts=${WEFT_CUTS:-20}
for ((n = 0; n < kills; n++)); do
    begin "$scratch/run" "$weft" launch -n 4 -- train gpt2 "${small[@]}" --out "$scratch/run"
    if fault KILL; then
        judge kills "$victim"
    else # it was done before
        rm -rf "$scratch/run"
        ((++late > kills)) && break
        ((n--))
    fi
done

# The link is there again when the ranks have ended.
if ((cuts)) && tests/mpi/hosts "$net" up 2>"$scratch/err"; then
    for ((n = 0; n < cuts; n++)); do
        begin "$scratch/run" tests/mpi/hosts "$net" run "$weft" launch -n 4 --hosts 10.77.0.1:2,10.77.0.2:2 -- train gpt2 \
            "${small[@]}" --out "$scratch/run"
        sleep "0.$((RANDOM % 10))"
        find_ranks "$scratch/run"
        at=$(newest "$scratch/run") start=$SECONDS
        tests/mpi/hosts "$net" cut
        for ((i = 0; i < 600; i++)); do
            gone "${pids[@]}" && break
            sleep 0.1
        done
        noticed=$((SECONDS - start))
        tests/mpi/hosts "$net" join
        wait "$job"
        code=$?
        judge cuts '[23]'
    done
elif ((cuts)); then
    skip "cut links" "two hosts cannot be made: $(head -n 1 "$scratch/err")"
fi

printf '{'
for kind in kills cuts; do
    printf '"%s": %d, "%s_in_time": %d, "%s_named": %d, "%s_same_weights": %d, ' $kind "${count[$kind]-0}" $kind \
        "${count[${kind}_in_time]-0}" $kind "${count[${kind}_named]-0}" $kind "${count[${kind}_same_weights]-0}"
done
printf '"longest_seconds": %d}\n' "$longest"
for kind in kills cuts; do
    all=${count[$kind]-0}
    [[ ${count[${kind}_in_time]-0} == "$all" && ${count[${kind}_named]-0} == "$all" && ${count[${kind}_same_weights]-0} == "$all" ]]
    result $? "$all $kind: all ended in time, named, and continued to the same weights"
done
finish
