#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# train.sh - a short training run is one JSON object, the same weights for any number of threads, others for another
# seed.
set -u
source tests/tap
weft=${WEFT:-build/weft}

train() { # ARGUMENTS...: the run's JSON
    "$weft" train gpt2 --json --set task=recall --set layers=1 --set width=32 --set heads=2 --set batch=4 \
        --set steps=3 --set eval_samples=8 "$@" 2>/dev/null
}
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

for dtype in bf16 f32; do
    one=$(train --set dtype=$dtype --threads 1) && loss=$(field loss <<<"$one") && weights=$(field weights_sha256 <<<"$one")
    result $? "$dtype: trains and tells the result as JSON"
    python3 -c 'import sys; sys.exit(not 0 < float(sys.argv[1]) < 100)' "$loss"
    result $? "$dtype: the loss is a number"
    for threads in 2 3; do
        [[ -n $weights && $(train --set dtype=$dtype --threads $threads | field weights_sha256) == "$weights" ]]
        result $? "$dtype: $threads threads give the weights of one"
    done
    again=$(train --set dtype=$dtype --set recompute=yes | field weights_sha256) && [[ $again == "$weights" ]]
    result $? "$dtype: recomputing gives the same weights"
    other=$(train --set dtype=$dtype --set seed=2 | field weights_sha256) && [[ $other != "$weights" ]]
    result $? "$dtype: another seed gives others"
done

quiet=(train gpt2 --set task=recall --set layers=1 --set width=32 --set heads=2 --set batch=4 --set steps=2)
[[ $("$weft" "${quiet[@]}" 2>&1 >/dev/null | grep -c 'instruction set') == 1 ]]
result $? "which instruction set runs is told once"
[[ $(WEFT_ISA=base "$weft" "${quiet[@]}" 2>&1 >/dev/null | grep -c 'they are emulated') == 1 ]]
result $? "emulated bf16 is warned of once"

saved=$("$weft" show gpt2-mini --json | field recompute_saves_bytes) && ((saved > 100000000))
result $? "show tells what recomputing saves"

for model in $("$weft" help models | awk '{ print $1 }'); do
    [[ $("$weft" show "$model" --json | field params) -gt 1000 ]]
    result $? "show $model counts its parameters"
done
finish
