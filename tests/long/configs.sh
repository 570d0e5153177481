#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# configs.sh - every study in configs/ passes its dry run: it can be read and planned, and all arms pass all gates.
set -u
source tests/tap
use_scratch

for config in configs/*; do
    [[ $config != configs/Kconfig ]] || continue
    "$weft" ablate --config "$config" --dry-run --json --out "$scratch/study" >"$scratch/plan" 2>"$scratch/err" &&
        grep -q '"gates_failed": 0' "$scratch/plan" && [[ ! -e $scratch/study ]]
    result $? "$config --dry-run"
    grep -q '"gates_failed": 0' "$scratch/plan" || sed 's/^/# /' "$scratch/err"
done
finish
