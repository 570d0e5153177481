#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# speed.sh - the speed limits, all of them ratios within one interleaved run. They need an otherwise idle machine with
# AMX; on other machines they are reported and skipped.
set -u
source tests/tap

[[ $("$weft" version) == *"amx tile loop"* ]] || { echo "skip: this machine has no AMX"; exit 77; }

holds() { # JSON EXPRESSION
    python3 -c 'import json, sys; r = json.loads(sys.argv[1]); sys.exit(not eval(sys.argv[2], r))' "$1" "$2"
}

bar() { # EXPRESSION NAME COMMAND...
    local json expression=$1 name=$2
    shift 2
    json=$("$weft" "$@" --json) && echo "# weft $*: $json"
    holds "$json" "$expression"
    result $? "$name: $expression"
}

bar "geomean >= 0.9 and min >= 0.75" "matmuls through the graph against the bare engine" bench engine --seconds 120
bar "share_of_product >= 0.4" "attention against a bare matmul" bench attention --seconds 20
for preset in gpt2-mini gpt2-124m; do
    bar "ratio_bare < 2" "a step of $preset against its matmuls" bench train --preset $preset
done
finish
