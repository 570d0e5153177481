#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# context.sh - attention, alone and with rows gathered by its routes, runs forward and backward at 4k, 8k, 16k and 32k
# tokens (12 heads of 64), and its memory grows no faster than its length.
set -u
source tests/tap

for mode in "" "--route topk"; do
    first=
    for length in 4096 8192 16384 32768; do
        # shellcheck disable=SC2086 # the mode is an option and its value
        json=$("$weft" bench attention $mode --length $length --seconds 1 --json) && echo "# $json"
        peak=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["peak_bytes"])' "$json")
        first=${first:-$peak}
        ((peak > 0 && peak * 4096 < first * length * 105 / 100))
        result $? "attention $mode: $length tokens in $((peak >> 20)) MiB"
    done
done
finish
