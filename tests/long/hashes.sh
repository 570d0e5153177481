#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# hashes.sh - at every level that this processor has, all small models get the bits of every machine, combinations with
# all pairs of choices get those of the best level, and ten million results of products equal their definition.
set -u
source tests/tap
weft=${WEFT:-build/weft}
products=$(dirname "$weft")/tests/unit/products

wanted=$("$weft" check --hashes --pairs --json 2>/dev/null | field sha256)
for isa in base v3 v4 amx; do
    if [[ $(WEFT_ISA=$isa "$weft" version --json | field isa) != "$isa" ]]; then
        skip "hashes and products at level $isa" "this processor does not have it"
        continue
    fi
    json=$(WEFT_ISA=$isa "$weft" check --hashes --json)
    result $? "hashes at level $isa: $json"
    json=$(WEFT_ISA=$isa "$weft" check --hashes --pairs --json 2>/dev/null)
    [[ ${#wanted} == 64 && $(field sha256 <<<"$json") == "$wanted" ]]
    result $? "all pairs of choices at level $isa: $json"
    counts=$(PRODUCTS=10 WEFT_ISA=$isa "$products" 2>&1)
    result $? "products at level $isa: $(grep -o '# .*' <<<"$counts" | tr '\n' ' ')"
done
finish
