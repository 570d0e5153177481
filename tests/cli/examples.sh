#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# examples.sh - the examples run as described in their comments, and are short. (tests/once/example-train.sh runs the
# last one.)
# run-tests: 4 s
set -u
source tests/tap
programs=$(dirname "$weft")/examples
use_scratch

# runs NAME WORDS ARGUMENTS...: it succeeds, and prints the words.
runs() {
    local name=$1 words=$2
    shift 2
    "$programs/$name" "$@" >"$scratch/out" 2>"$scratch/err" && grep -q -- "$words" "$scratch/out"
    result $? "$name prints \"$words\""
    grep -q -- "$words" "$scratch/out" || sed 's/^/# /' "$scratch/out" "$scratch/err"
}

runs 01_version "libweft $(sed -n 's/^#define WEFT_VERSION "\(.*\)"/\1/p' include/weft.h)"
runs 02_block 'rms of what the block adds: 0\.0[0-9]*'
runs 03_wsffn 'ws_c  *0\.'
runs 04_training_loop 'step 120  loss 0\.' "$scratch/checkpoints"
runs 05_decode '^31 ' "$scratch/checkpoints" 1 4 7
runs 06_threads '8 of 8 threads'
"$programs/05_decode" "$scratch/nowhere" 1 >"$scratch/out" 2>"$scratch/err"
[[ $? == 1 ]] && grep -q 'not a folder with weights' "$scratch/err"
result $? "an error is reported as the library words it"

long=$(wc -l examples/*.c | awk '$2 != "total" && $1 >= 60 { print $2 }')
[[ -z $long ]]
result $? "every example has less than 60 lines: $long"
finish
