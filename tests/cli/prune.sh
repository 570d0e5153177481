#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# prune.sh - pruning as a user does it: masks of a resumed run, their report in the log and in `weft show`, smaller models
# that eval, generate, train, export and prune accept, and units that training prunes and `weft prune` then removes.
# run-tests: 14 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
enter_scratch

small=(--set recall_length=8 --set vocab=16 --set context=16 --set layers=2 --set width=32 --set heads=4 --set m1=yes
    --set m2=yes --set m3=yes --set m1_width=8 --set m2_rank=8 --set m3_width=8 --set eval_samples=64 --set warmup=5
    --set steps=24 --set log_every=1)
train() { "$weft" train "$@" --json >json 2>err || { sed 's/^/# /' err && false; }; }
last() { grep -o "\"$2\": [^,}]*" "$1/log.jsonl" | tail -n 1 | cut -d' ' -f2; }

# ---- masks

pruning=(--set prune=0.6 --set prune_every=2 --set checkpoint_every=9 --set keep=9)
WEFT_TEST_SKIP_GATES=0 train gpt2 "${small[@]}" "${pruning[@]}" --out whole
whole=$(field weights_sha256 <json)
cp -r whole parts && rm -r parts/step-000000018 parts/step-000000024 && train parts --resume
[[ $(field weights_sha256 <json) == "$whole" ]]
result $? "a run that is resumed between two growths of its masks ends at the same weights"
"$weft" audit parts >out 2>err
result $? "and passes an audit"

cp -r whole other && rm -r other/step-000000018 other/step-000000024 && rm other/step-000000009/masks.safetensors
"$weft" train other --resume >out 2>err
[[ $? == 1 ]] && grep -q 'masks.safetensors' err
result $? "a checkpoint without its masks is rejected"

params=$("$weft" show whole --json | field params) pruned=$("$weft" show whole --json | field pruned_params)
awk -v a="$(last whole sparsity)" -v b="$pruned" -v c="$params" 'BEGIN { d = a - b / c; exit !(b > 0 && d < 1e-8 && d > -1e-8) }'
result $? "show and the log have the same number of pruned weights: $pruned of $params"

python3 - whole/step-000000024 "$pruned" <<'END'
import json, struct, sys
def tensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head, data = json.loads(f.read(n)), f.read()
    return {k: data[v["data_offsets"][0]:v["data_offsets"][1]] for k, v in head.items() if k != "__metadata__"}
weights, masks = (tensors(f"{sys.argv[1]}/{name}.safetensors") for name in ("model", "masks"))
count = 0
for name, mask in masks.items():
    values = struct.unpack(f"<{len(weights[name]) // 4}f", weights[name])
    bits = [mask[i // 8] >> i % 8 & 1 for i in range(len(values))]
    assert all(x == 0 for x, bit in zip(values, bits) if bit), name
    assert sum(bits) == int(0.6 * len(bits)), name
    count += sum(bits)
assert count == int(sys.argv[2]), count
assert {n.split(".")[2] for n in masks} == {"attn", "ffn", "m1", "m2", "m3"}
END
result $? "the masks have the bits of 60 % of each matrix, and these weights are 0"

# ---- smaller models

train gpt2 "${small[@]}" --out run
"$weft" prune run --heads 0.5 --channels 0.25 --ranks 0.5 --out less --json >json 2>err
result $? "heads, channels and ranks are left out"
[[ $(field heads <json) == "2 of 4" && $(field channels <json) == "96 of 128" && $(field m3_ranks <json) == "4 of 8" ]]
result $? "the requested number is pruned"
[[ $("$weft" show less --json | field params) == "$(field params <json)" ]]
result $? "show agrees with its weights: $(field params <json) of $(field params_before <json)"
"$weft" eval less --json >json 2>err && [[ $(field test_loss <json) ]]
result $? "eval takes it"
"$weft" generate less --ids --tokens 4 --prompt "1 2 3" >out 2>err
result $? "generate takes it"
"$weft" export less --format onnx --out onnx >out 2>err
result $? "export takes it"
train less --init less --set steps=12 --out tuned && grep -q copied err && ! grep -q 'drawn\|left out' err
result $? "training continues from all of its weights"
"$weft" prune less --heads 0.5 --out least >out 2>err && grep -q '1 of 2' out
result $? "it can be pruned again"

# ---- units, in training

units=(--set m2=no --set m2_rank=64 --set prune_heads=0.25 --set prune_channels=0.5 --set prune_ranks=0.5 --set prune_every=2
    --set checkpoint_every=9 --set keep=9)
WEFT_TEST_SKIP_GATES=0 train gpt2 "${small[@]}" "${units[@]}" --out units
whole=$(field weights_sha256 <json)
cp -r units again && rm -r again/step-000000018 again/step-000000024 && train again --resume
[[ $(field weights_sha256 <json) == "$whole" ]]
result $? "a run that prunes units is resumed to the same weights"
"$weft" audit again >out 2>err
result $? "and passes an audit"
"$weft" prune units --heads 0.25 --channels 0.5 --ranks 0.5 --out cut --json >json 2>err
[[ $(field heads <json) == "3 of 4" && $(field channels <json) == "64 of 128" && $(field m1_ranks <json) == "4 of 8" ]]
result $? "a cut removes the same number of units"
left=$(field params <json) before=$(field params_before <json)
awk -v a="$(last units sparsity)" -v b="$left" -v c="$before" 'BEGIN { d = a - (c - b) / c; exit !(d < 1e-8 && d > -1e-8) }'
result $? "the sparsity of the log is what the cut saves: $left of $before weights are left"
"$weft" show units --json >json 2>err && [[ $(field cut_params <json) == "$left" ]] &&
    [[ $(field pruned_params <json) == $((before - left)) && $(field pruned_weight_bytes <json) == $((4 * left)) ]]
result $? "show predicts this"
flops=$(field flops_decode_cut_per_token <json)
[[ $flops == "$("$weft" show cut --json | field flops_decode_per_token)" ]]
result $? "and has the FLOPs of the smaller model: $flops"
a=$("$weft" eval units --json 2>err | field test_loss) b=$("$weft" eval cut --json 2>err | field test_loss)
awk -v a="$a" -v b="$b" 'BEGIN { d = (a - b) / a; exit !(a > 0 && d < 1e-6 && d > -1e-6) }'
result $? "both have the same loss: $a and $b"
train cut --init cut --set steps=6 --out tuned2 && ! grep -q sparsity tuned2/log.jsonl
result $? "the smaller model is trained without pruning it again"

refused_training() { # NAME WORDS ARGUMENT...
    local name=$1 words=$2
    shift 2
    ! WEFT_TEST_SKIP_GATES=0 "$weft" train "$@" --verbose --out refused >out 2>err && grep -q "$words" err && ! grep -q 'check/' err && [[ ! -e refused ]]
    result $? "refused before the gates: $name"
}
refused_training "heads of alibi" "prune_heads=0.5: pos=alibi" gpt2 --set pos=alibi --set prune_heads=0.5
refused_training "channels of ws" "prune_channels=0.5: ffn=ws" ws --set prune_channels=0.5
refused_training "ranks in a model without them" "prune_ranks=0.5: no mechanism" gpt2 --set prune_ranks=0.5
refused_training "less than one head" "prune_heads=0.1: 0.1 of 4 rounds to none" gpt2 --set prune_heads=0.1

# ---- what is rejected

refused() { # NAME WORDS ARGUMENT...
    local name=$1 words=$2
    shift 2
    ! "$weft" prune "$@" >out 2>err && grep -q "$words" err
    result $? "refused: $name"
}
refused "nothing to leave out" "nothing to prune" run --out x
refused "less than one head" "rounds to none" run --heads 0.1 --out x
refused "all heads" "rounds to all" run --heads 1 --out x
refused "a folder that is a model" "already has a config.json" run --heads 0.5 --out less
refused "a model without weights" "not a folder" gpt2 --heads 0.5 --out x
train gpt2 --set steps=1 --set layers=1 --set eval_samples=1 --out plain
refused "ranks in a model without them" "no mechanism" plain --ranks 0.5 --out x
[[ ! -e x ]]
result $? "what is rejected leaves no folder"

finish
