#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# reference.sh - `weft verify --reference` with the NumPy definition of gpt2 in docs/reference.md: it passes unchanged,
# and fails with one term changed.
# run-tests: 28 s
set -u
source tests/tap
use_scratch
python=python3
python3 -c 'import numpy' 2>/dev/null || python=$(tools/venv.sh 2>"$scratch/why") ||
    { echo "skip: $(cat "$scratch/why")"; exit 77; }

awk '$0 == "```python" { inside = 1; next } /^```$/ { inside = 0 } inside' docs/reference.md >"$scratch/gpt2.py"
model=(gpt2 --set layers=1)
verify() { "$weft" verify "${model[@]}" --gate accounted "$@" >"$scratch/out" 2>"$scratch/err"; }

"$weft" verify "${model[@]}" --reference-inputs "$scratch/in" && "$weft" verify "${model[@]}" --reference-inputs "$scratch/again" &&
    cmp "$scratch/in" "$scratch/again"
result $? "the inputs are written, the same for the same settings"
"$python" "$scratch/gpt2.py" "$scratch/in" "$scratch/reference" && verify --reference "$scratch/reference" &&
    [[ $(grep -c '^PASSED gpt2 bf16 .*reference .* against the reference' "$scratch/out") == 8 ]]
result $? "logits, loss and gradients of gpt2 match the definition on the page, in f64, f32 and bf16"
grep -q '^geom=dot, attn=full, pos=learned, ffn=gelu, norm=layernorm: compared with an independent PyTorch definition' "$scratch/out"
result $? "and its parts are compared with a second definition in tests/golden"
"$weft" verify "${model[@]}" --set dtype=f32 --gate accounted --reference "$scratch/reference" --json | grep -q '"parts_without_definition": ""'
result $? "also in f32, and as JSON"

# fails WHAT: the checks that fail are those, by name.
fails() {
    ! verify --reference "$scratch/changed" && [[ $(sed -n 's/^FAILED gpt2 bf16 *reference *\(.*\) in \([a-z0-9]*\) against.*/\1 \2/p' "$scratch/out" | paste -sd ,) == "$1" ]]
}
sed 's/0\.044715/0.05/' "$scratch/gpt2.py" >"$scratch/changed.py"
"$python" "$scratch/changed.py" "$scratch/in" "$scratch/changed"
fails 'logits f64,loss f64,gradients of 20 weights f64'
result $? "a constant of gelu that is 12 % off"
sed 's| / np.sqrt(q.shape\[-1\])||' "$scratch/gpt2.py" >"$scratch/changed.py"
"$python" "$scratch/changed.py" "$scratch/in" "$scratch/changed"
fails 'logits f64,loss f64,gradients of 20 weights f64,logits f32,loss f32,gradients of 20 weights f32'
result $? "scores without their scale"
cat >"$scratch/edit.py" <<'END'
import sys
source = open(sys.argv[1]).read()
exec(source[: source.index("options, tensors")] + source[source.index("def read") : source.index("def linear")].replace('"<f4"', '"<f8"').replace('"F32"', '"F64"').replace('head.pop("__metadata__")', "None"))
_, tensors = read(sys.argv[2])
tensors = {name: x.copy() for name, x in tensors.items()}
exec(sys.argv[4])
write(sys.argv[3], tensors)
END
edit() { "$python" "$scratch/edit.py" "$scratch/gpt2.py" "$scratch/reference" "$scratch/changed" "$1"; }
edit 'tensors["grad.blocks.0.attn.wk"] *= 1.001' && fails 'gradients of 20 weights f64' && grep -q 'blocks.0.attn.wk, element' "$scratch/out"
result $? "one gradient that is 0.1 % off is found and named"
# refuses TEXT STATEMENT: the edited reference fails with TEXT in the error.
refuses() {
    edit "$2" && ! verify --reference "$scratch/changed" && grep -qF "$1" "$scratch/err"
    result $? "refused: $1"
}
refuses 'has no tensor grad.wte: write the gradient of the loss with respect to this weight under this name, with shape [17, 32]' \
    'del tensors["grad.wte"]'
refuses 'grad.blocks.0.ffn.fc has shape [32, 24], expected [24, 32]' 'tensors["grad.blocks.0.ffn.fc"] = tensors["grad.blocks.0.ffn.fc"].T'
refuses 'has an unknown tensor grad.head: write only logits, loss and grad.NAME' 'tensors["grad.head"] = np.zeros(3)'
refuses 'logits is not finite at element 5' 'tensors["logits"].flat[5] = np.nan'
! "$weft" verify --reference "$scratch/reference" 2>"$scratch/err" && grep -q 'needs a MODEL' "$scratch/err"
result $? "without a MODEL it is rejected"
finish
