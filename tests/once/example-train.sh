#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# example-train.sh - the example that trains a model ends with the weights of the equivalent command, and its run passes
# an audit.
# run-tests: 13 s
set -u
source tests/tap
programs=$(dirname "$weft")/examples
use_scratch

"$programs/07_train" "$scratch/run" >"$scratch/out" 2>"$scratch/err" && grep -q 'saved: train with `resume`' "$scratch/out"
result $? "07_train trains and saves"
WEFT_TEST_SKIP_GATES=1 "$weft" train gpt2 --set steps=20 --set eval_samples=16 --json >"$scratch/json" 2>"$scratch/err"
[[ $(field weights_sha256 <"$scratch/json") == $(tail -n 1 "$scratch/out") ]]
result $? "07_train ends at the weights of weft train"
"$weft" audit "$scratch/run" >"$scratch/out" 2>&1
result $? "its run passes an audit"
finish
