#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# calibration.sh - measures how often a study finds a difference if there is none. The arms differ only in the key of
# their initial weights; 200 pairs of runs are 40 studies of 5 seeds. The Clopper-Pearson interval for the fraction of
# studies whose interval excludes 0 must contain 5 %, so at most five studies may.
set -u
source tests/tap
use_scratch
studies=40

cat >"$scratch/same" <<'END'
CONFIG_WEFT_PRESET="gpt2"
CONFIG_WEFT_ARMS="one: init_key=1 | two: init_key=2"
CONFIG_WEFT_SEEDS=5
CONFIG_WEFT_TASK="recall"
CONFIG_WEFT_LAYERS=2
CONFIG_WEFT_WIDTH=64
CONFIG_WEFT_HEADS=2
CONFIG_WEFT_CONTEXT=32
CONFIG_WEFT_BATCH=16
CONFIG_GPT2_MAX_ITERS=150
CONFIG_WEFT_WARMUP=20
CONFIG_WEFT_EVAL_SAMPLES=256
END

found=0
: >"$scratch/differences"
for ((i = 0; i < studies; i++)); do
    "$weft" ablate --config "$scratch/same" --set seed=$((1 + 5 * i)) --out "$scratch/$i" >/dev/null 2>"$scratch/err" ||
        { cat "$scratch/err"; result 1 "study $i runs"; finish; }
    "$weft" report "$scratch/$i" --json >"$scratch/json"
    verdict=$(sed -n 's/.*"two.verdict": "\([^"]*\)".*/\1/p' "$scratch/json")
    sed -n 's/.*"two.diff_mean": \([^,]*\),.*/\1/p' "$scratch/json" >>"$scratch/differences"
    echo "# study $i: $verdict, difference $(tail -1 "$scratch/differences")"
    [[ $verdict == better || $verdict == worse ]] && ((found++))
done

# The interval by bisection on the binomial distribution.
awk -v k="$found" -v n="$studies" '
function tail(p, from, to,   i, j, c, sum) { # P(from <= X <= to)
    for (i = from; i <= to; i++) {
        c = 1
        for (j = 1; j <= i; j++) c = c * (n - j + 1) / j
        sum += c * p ^ i * (1 - p) ^ (n - i)
    }
    return sum
}
function solve(from, to, rising,   a, b, m, i) { # where the tail is 0.025
    a = 0; b = 1
    for (i = 0; i < 60; i++) {
        m = (a + b) / 2
        if ((tail(m, from, to) < 0.025) == rising) a = m; else b = m
    }
    return a
}
BEGIN {
    low = k == 0 ? 0 : solve(k, n, 1)
    high = k == n ? 1 : solve(0, k, 0)
    printf "{\"pairs\": %d, \"studies\": %d, \"found\": %d, \"rate_low\": %.4f, \"rate_high\": %.4f}\n", 5 * n, n, k, low, high
    exit !(low <= 0.05 && 0.05 <= high)
}'
result $? "the false-positive rate of arms without a difference is compatible with 5 %"
finish
