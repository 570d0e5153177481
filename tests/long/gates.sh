#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# gates.sh - models that Weft exports to Hugging Face pass weft.gates, as they pass Weft's own gates; the same models with a
# fault written into modeling_weft.py fail the gate that catches this fault in Weft (docs/gates.md).
set -u
source tests/tap
top=$PWD work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$(tools/venv.sh) || finish
export PYTHONPATH=$top/python PYTHONDONTWRITEBYTECODE=1 HF_HOME=$work/hub WEFT_TEST_SKIP_GATES=1

# verdict FOLDER: prints the gates that fail, or "passed".
verdict() {
    "$python" -W ignore -m weft.gates "hf:$1" --trust-remote-code --gate causal --gate isolated --gate cached \
        --require causal --require isolated --require cached --json 2>"$work/errors" >"$work/report.json"
    "$python" - "$work/report.json" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
failed = {c["gate"] for c in report["checks"] if c["outcome"] == "fail"}
print(" ".join(sorted(failed)) or ("passed" if report["passed"] else "not proved"))
P
}

exported() {
    local name=$1
    shift
    "$WEFT" train "$@" --set steps=1 --set batch=2 --set warmup=0 --out "$work/run-$name" >"$work/log" 2>&1 &&
        "$WEFT" export "$work/run-$name" --format hf --out "$work/$name" --no-check >"$work/log" 2>&1 || cat "$work/log"
}

small=(--set layers=2 --set width=64 --set heads=4 --set context=128)
exported gpt2 gpt2 "${small[@]}"
exported llama llama "${small[@]}"
exported w2 w2 "${small[@]}"
exported overlap w2 "${small[@]}" --set geom=overlap
exported ws ws "${small[@]}"
exported latent w2 "${small[@]}" --set attn=latent
exported ra-mla ra-mla "${small[@]}" --set task=recall --set vocab=64
for name in gpt2 llama w2 overlap ws latent ra-mla; do
    got=$(verdict "$work/$name")
    [[ $got == passed ]]
    result $? "$name passes ($got)"
done

# fault GATE NAME SED: the model with a changed modeling_weft.py fails this gate.
fault() {
    local gate=$1 name=$2 edit=$3 model got
    for model in w2 ws; do
        rm -rf "$work/broken" && cp -r "$work/$model" "$work/broken"
        sed -i "$edit" "$work/broken/modeling_weft.py"
        cmp -s "$work/$model/modeling_weft.py" "$work/broken/modeling_weft.py" && result 1 "$model: the edit of '$name' changes it"
        got=$(verdict "$work/broken")
        [[ " $got " == *" $gate "* ]]
        result $? "$model, $name: $gate fails ($got)"
    done
}

fault causal "the next token is seen" 's/(column <= row)/(column <= row + 1)/; s/return None/pass/'
fault causal "every token is seen" 's/(column <= row)/(column >= 0)/; s/return None/pass/'
fault causal "a mask of -20" 's/attn_mask=visible, is_causal=causal/attn_mask=None if visible is None else torch.where(visible, 0.0, -20.0)/; s/return None/pass/'
fault isolated "hidden tokens are seen" 's/& attention_mask.bool()\[:, None\]/\& (attention_mask[:, None] >= 0)/'
fault isolated "a neighbour in the batch" 's/^\( *\)x = block(/\1x = x + 0.1 * x.roll(1, 0)\n&/; s/block(inputs_embeds/block(inputs_embeds + 0.1 * inputs_embeds.roll(1, 0)/'
fault cached "the oldest token is forgotten" 's/^\( *\)return cache.update(\(.*\))\[0\]\[:, 0\]/\1everything = cache.update(\2)[0][:, 0]\n\1return everything * (torch.arange(everything.shape[1]) > (everything.shape[1] > new.shape[1]) - 1)[:, None]/'
fault cached "the cache keeps the next to last token twice" 's/^\( *\)return cache.update(\(.*\))\[0\]\[:, 0\]/\1everything = cache.update(\2)[0][:, 0]\n\1return everything.roll(int(everything.shape[1] > new.shape[1]), 1)/'
finish
