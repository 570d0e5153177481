#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# diff.sh - weft diff finds step, tensor and op of differences between two runs: weights changed in a checkpoint, and
# options changed after a checkpoint, with all hashes recomputed (forger.py).
# run-tests: 6 s
set -u
source tests/fault/tiny
export WEFT_TEST_SKIP_GATES=1

"$weft" train gpt2 --set task=recall --set recall_length=8 --set layers=1 --set width=16 --set heads=2 --set batch=4 \
    --set steps=40 --set warmup=5 --set checkpoint_every=10 --set keep=10 --set eval_samples=8 --set log_every=5 --set dropout=0.1 \
    --out a >/dev/null 2>err || { cat err && exit 1; }
field() { sed -n "s/.*\"$1\": \"\?\([^,}\"]*\).*/\1/p"; }
# differs STEP WHAT NAME: weft diff finds it
differs() {
    "$weft" diff a b --json >json 2>err && [[ $(field first_step <json) == "$1" && $(field what <json) == "$2" ]]
    local status=$?
    result $status "$3 is found: step $1, $2"
    ((status == 0)) || sed 's/^/# /' json err
}

cp -r a b && [[ $("$weft" diff a b --json 2>/dev/null | field first_step) == -1 ]]
result $? "a copy does not differ"
for step in 10 20 30 40; do
    for at in 0 5000; do
        rm -rf b && cp -r a b && forger weights b $step $at >out && read -r tensor element <out
        differs $step "weights in the checkpoint of B" "element $element of $tensor, changed in the checkpoint of step $step"
        [[ $(field tensor <json) == "$tensor" && $(field element <json) == "$element" ]]
        result $? "and so is the element"
    done
done
for step in 10 30; do
    while read -r option value what op; do
        rm -rf b && cp -r a b && awk -F '[ ,]' -v last=$step '$2 <= last' a/log.jsonl >b/log.jsonl
        for later in 20 30 40; do ((later <= step)) || rm -r "b/step-0000000$later"; done
        forger config b "$option" "$value"
        "$weft" train b --resume >/dev/null 2>err || sed 's/^/# /' err
        differs $((step + 1)) "$what" "$option=$value after step $step"
        [[ $(field from_checkpoint <json) == "$step" && $(field op <json) == "$op"* ]]
        result $? "from the checkpoint before it${op:+, and the op: $op}"
    done <<'END'
lr 0.002 weights
decay 0.5 weights
dropout 0.2 loss the output of dropout differs at row
clip 0.01 weights
END
done

# Two models with the same weights: the first op in which they differ, wherever it is.
parts() { # TEXT SETTING...
    rm -rf b c
    "$weft" train gpt2 "${tiny[@]}" --out b >/dev/null 2>err && "$weft" train gpt2 "${tiny[@]}" "${@:2}" --out c >/dev/null 2>err &&
        "$weft" diff b c --json >json 2>err && [[ $(field first_step <json) == 1 && $(field op <json) == "$1"* ]]
    local status=$?
    result $status "${*:2}: $1"
    ((status == 0)) || sed 's/^/# /' json err
}
tiny=(--set task=recall --set recall_length=8 --set layers=2 --set width=16 --set heads=2 --set batch=4 --set steps=3 --set warmup=1
    --set eval_samples=8 --unsafe)
parts "the output of attention in layer 0 differs at row 1" --set ra_alpha=0.5 --set ra_window=4
parts "A computes layernorm where B computes dropout" --set dropout=0.1
parts "the output of cross_entropy with wte differs at row 0" --set logits_z=0.1
finish
