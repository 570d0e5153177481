#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# train.sh - a build with oneDNN: by default its results match Weft's own loops; with WEFT_ENGINE=onednn they are
# oneDNN's and are marked as such; benchmarks compare with oneDNN.
set -u
source tests/tap

# oneDNN's bf16 takes minutes for this model without AMX.
[[ $("$weft" version --json | field isa) == amx ]] && dtype=bf16 || dtype=f32
train() { "$weft" train gpt2 --set task=recall --set steps=5 --set dtype=$dtype --json "$@" 2>"$scratch/err"; }
use_scratch

own=$(train --threads 2)
result $? "a run with Weft's own kernels"
[[ $(field isa <<<"$own") != *onednn* ]] && ! grep -q WEFT_ENGINE "$scratch/err"
result $? "it has Weft's own bits"
for threads in 1 3; do
    theirs=$(WEFT_ENGINE=onednn train --threads $threads)
    result $? "a run with oneDNN's matmuls, $threads threads"
    grep -q "with WEFT_ENGINE=onednn, results are not bit-identical" "$scratch/err" &&
        [[ $(field isa <<<"$theirs") == *-onednn ]]
    result $? "it reports that its bits differ from other engines"
    field weights_sha256 <<<"$theirs" >>"$scratch/hashes"
done
[[ $(sort -u "$scratch/hashes" | wc -l) == 1 ]]
result $? "which do not depend on threads"

bench=$("$weft" bench attention --length 64 --seconds 1 --json)
[[ $? == 0 && $(field yardstick <<<"$bench") == onednn ]]
result $? "benches compare with oneDNN"
finish
