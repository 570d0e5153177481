#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# extend.sh - follows docs/howto literally in a copy of the tree: an op, an attention, a geometry and a feed-forward are
# one row and one file each, taken from the pages. The op harness, options, Kconfig, gates and the export to ONNX must pick
# them up automatically.
# run-tests: 84 s
set -u
source tests/tap
source tests/howto/page
copy_tree

# add PAGE TABLE FILE LINES: inserts the row before the table's #undefs, or at its end, and writes the file, of at most
# LINES lines, to its place
add() {
    local row lines
    row=$(block c 1 "docs/howto/$1.md")
    if grep -q '^#undef' "$work/src/$2"; then
        sed -i "0,/^#undef/s//$row\n#undef/" "$work/src/$2"
    else
        printf '%s\n' "$row" >>"$work/src/$2"
    fi
    block c 2 "docs/howto/$1.md" >"$work/src/$3"
    lines=$(wc -l <"$work/src/$3")
    ((lines > 0 && lines <= $4))
    result $? "docs/howto/$1.md: one row and one file of $lines lines"
}
add add-an-op ops/ops.def ops/square.c 20
add add-an-attention nn/parts.def nn/attn/shared_qk.c 60
add add-a-geometry nn/parts.def nn/geom/l2.c 60
add add-a-feed-forward nn/parts.def nn/ffn/glu.c 60

make -C "$work" build >"$work/log" 2>&1
built=$?
result $built "the tree with them builds"
count=$(grep -c '^  CC ' "$work/log")
((count > 0 && count < 80))
result $? "an op, an attention, a geometry and a feed-forward compile $count files again"
((built == 0)) || tail -20 "$work/log" | sed 's/^/# /'
weft=$work/build/weft

json=$("$weft" check --op square --json) && [[ $(field ops <<<"$json") == 1 && $(field failed <<<"$json") == 0 ]]
result $? "the harness checks the op: $json"
"$weft" help options >"$work/options" && "$weft" help options --as kconfig >"$work/kconfig"
for option in shared_values glu_lambda; do
    grep -q "$option" "$work/options" && grep -qi "config WEFT_$option" "$work/kconfig"
    result $? "help and Kconfig have the option $option"
done
verifies() { # MODEL SETTINGS...
    local settings=("${@:2}")
    "$weft" verify "$1" "${settings[@]/#/--set=}" >"$work/verify"
    local status=$?
    result $status "the gates hold: $*"
    ((status == 0)) || grep -v ^PASSED "$work/verify" | sed 's/^/# /'
}
verifies llama attn=shared_qk shared_values=yes
verifies llama geom=l2
grep -q '^geom=l2: no independent definition' "$work/verify"
result $? "verify prints that a geometry has no definition of its own"
WEFT_TEST_SKIP_GATES=1 "$weft" train llama --set geom=l2 --set steps=20 --set width=64 --set heads=2 --out "$work/l2" >/dev/null 2>&1 &&
    grep -q '^{"step": 20, .*"weights_sha256"' "$work/l2/log.jsonl"
result $? "a model with the geometry trains"
verifies gpt2 ffn=glu m2=yes
grep -q '^ffn=glu: no independent definition' "$work/verify"
result $? "verify prints that a part has no definition of its own"
[[ ${WEFT_EVERY:-} != 1 ]] || verifies gpt2 attn=shared_qk ffn=glu m1=yes m3=yes

# The export to ONNX prints the graph, so it needs no code for a part.
export WEFT_TEST_SKIP_GATES=1
small=(layers=3 width=32 heads=4 batch=2 dtype=f32 schedule=constant warmup=0)

# trained NAME WORDS...: trains a small model in the folder NAME.
trained() {
    local name=$1 model=$2 settings=("${small[@]}" "${@:3}")
    "$weft" train "$model" "${settings[@]/#/--set=}" --out "$work/$name" >/dev/null 2>"$work/err"
}

# exports NAME PRESET SETTINGS...: ONNX Runtime computes the logits of the model, whose weights are large, so that every
# part counts.
exports() {
    local json=
    trained "$1" "${@:2}" steps=20 lr=0.1 &&
        json=$(WEFT_PYTHON=$python "$weft" export "$work/$1" --format onnx --out "$work/$1-onnx" --check --json 2>"$work/err") &&
        [[ $(field checked_by <<<"$json") == onnxruntime* && $(field tokens_agree <<<"$json") == $(field tokens <<<"$json") ]]
    result $? "ONNX Runtime computes the logits of ${*:2}: $json" || sed 's/^/# /' "$work/err"
}

# counts NAME PRESET SETTINGS...: this model, which has the weights of model NAME as far as they fit, has logits that differ
# from those of NAME by at least 100 times the limit of that comparison.
counts() {
    local difference=
    rm -rf "$work"/other*
    trained other "${@:2}" steps=1 lr=0 init="$work/$1" init_leave=yes &&
        "$weft" export "$work/other" --format onnx --out "$work/other-onnx" --no-check >/dev/null 2>"$work/err" &&
        difference=$("$python" tests/howto/onnx_difference.py "$work/$1-onnx" "$work/other-onnx" 2>"$work/err") &&
        awk -v difference="$difference" 'BEGIN { exit !(difference > 1e-2) }'
    result $? "logits of ${*:2} with the same weights differ by $difference" || sed 's/^/# /' "$work/err"
}

if python=$(tools/venv.sh 2>"$work/why"); then
    exports shared_qk llama attn=shared_qk shared_values=yes m1=yes m1_mode=prefix m1_alpha=1
    counts shared_qk llama attn=full m1=yes m1_mode=prefix m1_alpha=1
    counts shared_qk llama attn=shared_qk shared_values=yes m1=yes m1_mode=prefix m1_alpha=0
    exports distance llama geom=l2 ra_alpha=0.5
    counts distance llama geom=dot ra_alpha=0.5
    counts distance llama geom=l2
    exports glu gpt2 ffn=glu m2=yes m3=yes
    counts glu gpt2 ffn=swiglu m2=yes m3=yes
    counts glu gpt2 ffn=glu m3=yes
    counts glu gpt2 ffn=glu m2=yes
else
    skip "models with the parts are exported to ONNX" "$(cat "$work/why")"
    trained glu gpt2 ffn=glu m2=yes m3=yes steps=1
fi

# The code for transformers is also printed from the graph; GGUF has no code for a part.
if [[ -n $python ]]; then
    json=$(WEFT_PYTHON=$python HF_HUB_OFFLINE=1 HF_MODULES_CACHE=$work/modules "$weft" export "$work/glu" --format hf \
        --out "$work/glu-hf" --check --json 2>"$work/err") &&
        (($(field tokens_agree <<<"$json") + $(field tokens_unclear <<<"$json") == $(field tokens <<<"$json")))
    result $? "a model with a part from the page is exported for transformers: $json" || sed 's/^/# /' "$work/err"
fi
! "$weft" export "$work/glu" --format gguf --out "$work/glu.gguf" >/dev/null 2>"$work/err" && [[ ! -e $work/glu.gguf ]]
result $? "a model with an added part is not exported as gguf: $(cat "$work/err")"
finish
