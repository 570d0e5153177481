#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# hashes.sh - at the level base, where multiply-adds are emulated, all small models get the bits of every machine, too;
# and ten million results of products equal their definition at every level that this processor has.
set -u
source tests/tap
weft=${WEFT:-build/weft}
products=$(dirname "$weft")/tests/unit/products

json=$(WEFT_ISA=base "$weft" check --hashes --json)
result $? "hashes at level base: $json"
for isa in base v3 v4 amx; do
    if [[ $(WEFT_ISA=$isa "$weft" version --json | field isa) != "$isa" ]]; then
        skip "products at level $isa" "this processor does not have it"
        continue
    fi
    counts=$(PRODUCTS=10 WEFT_ISA=$isa "$products" 2>&1)
    result $? "products at level $isa: $(grep -o '# .*' <<<"$counts" | tr '\n' ' ')"
done
finish
