#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# hashes.sh - at every level of this processor, all small models have the recorded bits of every machine, combinations
# with all pairs of option values have the bits of the best level (at base one of four, since it is slow), ten million
# results of matmuls equal their definition, and ten million of attention are the same at all levels.
set -u
source tests/tap
units=$(dirname "$weft")/tests/unit

pairs_at() { WEFT_ISA=$1 "$weft" check --hashes --pairs --every "$2" --json 2>/dev/null; } # LEVEL EVERY
best=$("$weft" version --json | field isa)
for every in 1 4; do
    printf -v wanted_$every %s "$(pairs_at "$best" $every | field sha256)"
done
for isa in base v3 v4 amx; do
    if [[ $(WEFT_ISA=$isa "$weft" version --json | field isa) != "$isa" ]]; then
        skip "hashes and matmuls at level $isa" "this processor does not have it"
        continue
    fi
    json=$(WEFT_ISA=$isa "$weft" check --hashes --json)
    result $? "hashes at level $isa: $json"
    every=1 && [[ $isa != base ]] || every=4
    wanted=wanted_$every && wanted=${!wanted}
    json=$(pairs_at $isa $every)
    [[ ${#wanted} == 64 && $(field sha256 <<<"$json") == "$wanted" ]]
    result $? "all pairs of choices at level $isa: $json"
    counts=$(PRODUCTS=10 WEFT_ISA=$isa "$units/products" 2>&1)
    result $? "matmuls at level $isa: $(grep -o '# .*' <<<"$counts" | tr '\n' ' ')"
done
counts=$(ATTENTION=10 "$units/attention" 2>&1)
result $? "attention at all levels: $(grep -o '# .*' <<<"$counts")"
finish
