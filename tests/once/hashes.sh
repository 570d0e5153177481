#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# hashes.sh - every level of this processor has the bits of every machine: all small models on the best path, and one on
# each path below except the lowest; on those also a sample of the combinations in which all pairs of option values occur,
# and matmuls (tests/unit/products). tests/long/hashes.sh runs everything on all paths.
# run-tests: 31 s
set -u
source tests/tap
products=$(dirname "$weft")/tests/unit/products
best=$("$weft" version --json | field isa)

pairs_at() { WEFT_ISA=$1 "$weft" check --hashes --pairs --every "${WEFT_EVERY:-60}" --json 2>/dev/null | field sha256; } # LEVEL
wanted=$(pairs_at "$best")
for isa in base v3 v4 amx; do
    if [[ $(WEFT_ISA=$isa "$weft" version --json | field isa) != "$isa" ]]; then
        skip "hashes at level $isa" "this processor does not have it"
        continue
    fi
    some=(--model w2) && [[ $isa != "$best" ]] || some=()
    if [[ $isa != base ]]; then # which is slow
        json=$(WEFT_ISA=$isa "$weft" check --hashes "${some[@]}" --json)
        result $? "hashes at level $isa: $json"
    fi
    [[ ${#wanted} == 64 && ($isa == "$best" || $(pairs_at $isa) == "$wanted") ]]
    result $? "pairs of choices at level $isa"
    WEFT_ISA=$isa "$products" >/dev/null 2>&1
    result $? "matmuls at level $isa"
done
! "$weft" check --hashes --model none 2>/dev/null
result $? "a model without hashes is rejected"
for wrong in "--model w2" --pairs "--hashes --every 2" "--hashes --pairs --model w2" "--hashes --op add"; do
    ! "$weft" check $wrong 2>/dev/null
    result $? "weft check $wrong is rejected"
done
finish
