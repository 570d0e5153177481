#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# hashes.sh - all small models get the bits of every machine at every level that this processor has, and ten million
# results of products equal their definition.
set -u
source tests/tap
weft=${WEFT:-build/weft}
products=$(dirname "$weft")/tests/unit/products

for isa in base v3 v4 amx; do
    if [[ $(WEFT_ISA=$isa "$weft" version --json | field isa) != "$isa" ]]; then
        skip "hashes and products at level $isa" "this processor does not have it"
        continue
    fi
    json=$(WEFT_ISA=$isa "$weft" check --hashes --json)
    result $? "hashes at level $isa: $json"
    counts=$(PRODUCTS=10 WEFT_ISA=$isa "$products" 2>&1)
    result $? "products at level $isa: $(grep -o '# .*' <<<"$counts" | tr '\n' ' ')"
done
finish
