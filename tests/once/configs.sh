#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# configs.sh - every study in configs/ can be read; the smallest passes its dry run with all gates (tests/long/configs.sh
# runs all of them).
# run-tests: 5 s
set -u
source tests/tap
use_scratch

for config in configs/*; do
    [[ $config != configs/Kconfig ]] || continue
    "$weft" config "$config" >"$scratch/out" 2>&1
    result $? "$config is read"
done
json=$("$weft" ablate --config configs/recall-quick --dry-run --json --out "$scratch/study" 2>"$scratch/err") &&
    [[ $(field gates_failed <<<"$json") == 0 && ! -e $scratch/study ]]
result $? "configs/recall-quick --dry-run"

# If the full RA-MLA study is too large for this machine, or its text is missing, a message names the study to run instead.
"$weft" ablate --config configs/gpt2-ra-mla-full --out "$scratch/study" >"$scratch/out" 2>"$scratch/err"
(($? == 1)) && grep -q "about .* days" "$scratch/err" && grep -q gpt2-ra-mla-small "$scratch/err" && [[ ! -e $scratch/study ]]
result $? "the full RA-MLA study is rejected with its time and a smaller one"
finish
