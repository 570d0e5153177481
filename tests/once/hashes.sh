#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# hashes.sh - small models get the bits of every machine, and so do products (tests/unit/products): all of them on this
# processor's best path, one on each path below (tests/long/hashes.sh has all).
set -u
source tests/tap
weft=${WEFT:-build/weft}
products=$(dirname "$weft")/tests/unit/products
best=$("$weft" version --json | field isa)

for isa in base v3 v4 amx; do
    if [[ $(WEFT_ISA=$isa "$weft" version --json | field isa) != "$isa" ]]; then
        skip "hashes at level $isa" "this processor does not have it"
        continue
    fi
    some=(--model w2) && [[ $isa != "$best" ]] || some=()
    json=$(WEFT_ISA=$isa "$weft" check --hashes "${some[@]}" --json)
    result $? "hashes at level $isa: $json"
    WEFT_ISA=$isa "$products" >/dev/null 2>&1
    result $? "products at level $isa"
done
! "$weft" check --hashes --model none 2>/dev/null
result $? "a model without hashes is refused"
finish
