#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# forms.sh - damaged forms of ops and nets are found by `weft check` and the gate `formed`: for each of the seeds 1 and
# 2, or for SEED=N, 100 damages that change a result (see forms.c). To watch: build/release/tests/long/forms --seed 1
set -u
source tests/tap
for seed in ${SEED:-1 2}; do
    "$(dirname "$weft")/tests/long/forms" --seed "$seed" --json
    result $? "seed $seed: at least 100 damages that change a result, all found"
done
finish
