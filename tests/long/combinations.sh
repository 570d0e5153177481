#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# combinations.sh - combinations in which all triples of option values occur, and a thousand random ones, pass the gates.
# Prints the seed of the random ones; SEED=N draws them again.
set -u
source tests/tap
seed=${SEED:-$(date +%Y%m%d)}

echo "# SEED=$seed"
for what in --triples "--random 1000"; do
    json=$("$weft" verify $what --seed "$seed" --json 2> >(sed 's/^/# /' >&2))
    status=$?
    echo "# $json"
    result $status "weft verify $what --seed $seed"
done
finish
