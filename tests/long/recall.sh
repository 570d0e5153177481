#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# recall.sh - both presets learn the recall task (S = 16, V = 64) to 99 % in under two minutes on two threads, and end
# with the same weights on 1, 2, 3 and 4 threads.
set -u
source tests/tap

for model in gpt2 llama; do
    two=$("$weft" train $model --set task=recall --threads 2 --json 2>/dev/null)
    echo "# $two"
    python3 -c 'import json, sys; r = json.loads(sys.argv[1]); sys.exit(not (r["accuracy"] >= 0.99 and r["seconds"] < 120))' "$two"
    result $? "$model reaches 99 % in under two minutes on 2 threads"
    for threads in 1 3 4; do
        weights=$("$weft" train $model --set task=recall --threads $threads --json 2>/dev/null | field weights_sha256)
        [[ $weights == "$(field weights_sha256 <<<"$two")" ]]
        result $? "$model: $threads threads give the weights of 2"
    done
done
finish
