#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# mutants.sh - the gates catch every mutant, and raise no alarm on all pairs of option values and 500 random combinations,
# in f32 and bf16. Prints the seed of the random ones; SEED=N draws them again. presets.sh checks the presets.
set -u
source tests/tap
seed=${SEED:-1}

json=$("$weft" verify gpt2 --mutants --random 500 --seed "$seed" --json 2> >(sed -u 's/^/# /' >&2))
status=$?
echo "# $json"
result $status "weft verify gpt2 --mutants --random 500 --seed $seed"
python3 -c 'import json, sys; r = json.loads(sys.argv[1]); sys.exit(not (r["mutants"] >= 60 and r["caught"] == r["mutants"] and r["false_alarms"] == 0))' "$json"
result $? "at least 60 mutants, all caught, no false alarm"
finish
