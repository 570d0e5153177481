#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# prune.sh - pruning as a user does it: masks of a run that is resumed, what the log and `weft show` say of them, and
# smaller models that eval, generate, train, export and prune again take.
set -u
source tests/tap
weft=${WEFT:-build/weft}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
[[ $weft == /* ]] || weft=$OLDPWD/$weft

small=(--set recall_length=8 --set vocab=16 --set context=16 --set layers=2 --set width=32 --set heads=4 --set m1=yes
    --set m2=yes --set m3=yes --set m1_width=8 --set m2_rank=8 --set m3_width=8 --set eval_samples=64 --set warmup=5
    --set steps=24 --set log_every=1)
train() { "$weft" train "$@" --json >json 2>err || { sed 's/^/# /' err && false; }; }
last() { grep -o "\"$2\": [^,}]*" "$1/log.jsonl" | tail -n 1 | cut -d' ' -f2; }

# ---- masks

pruning=(--set prune=0.6 --set prune_every=2 --set checkpoint_every=9 --set keep=9)
train gpt2 "${small[@]}" "${pruning[@]}" --out whole
whole=$(field weights_sha256 <json)
cp -r whole parts && rm -r parts/step-000000018 parts/step-000000024 && train parts --resume
[[ $(field weights_sha256 <json) == "$whole" ]]
result $? "a run that is resumed between two growths of its masks ends at the same weights"
"$weft" audit parts >out 2>err
result $? "and passes an audit"

cp -r whole other && rm -r other/step-000000018 other/step-000000024 && rm other/step-000000009/masks.safetensors
"$weft" train other --resume >out 2>err
[[ $? == 1 ]] && grep -q 'masks.safetensors' err
result $? "a checkpoint without its masks is refused"

params=$("$weft" show whole --json | field params) pruned=$("$weft" show whole --json | field pruned_params)
awk -v a="$(last whole sparsity)" -v b="$pruned" -v c="$params" 'BEGIN { d = a - b / c; exit !(b > 0 && d < 1e-8 && d > -1e-8) }'
result $? "show counts as many pruned weights as the log: $pruned of $params"

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
result $? "as many as asked for"
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

refused() { # NAME WORDS ARGUMENT...
    local name=$1 words=$2
    shift 2
    ! "$weft" prune "$@" >out 2>err && grep -q "$words" err
    result $? "refused: $name"
}
refused "nothing to leave out" "leave out what" run --out x
refused "less than one head" "is none" run --heads 0.1 --out x
refused "all heads" "is all" run --heads 1 --out x
refused "a folder that is a model" "written over" run --heads 0.5 --out less
refused "a model without weights" "not a folder" gpt2 --heads 0.5 --out x
train gpt2 --set steps=1 --set layers=1 --set eval_samples=1 --out plain
refused "ranks where there are none" "no mechanism" plain --ranks 0.5 --out x
[[ ! -e x ]]
result $? "what is refused leaves no folder"

finish
