#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# outside.sh - parts from outside the tree, registered by a program that is linked with the library: the attention and the
# feed-forward of docs/howto, and a mechanism (outside/surprise.c). Models with them pass the gates and are exported to
# ONNX, for transformers and as PyTorch modules. These compute the same logits, and different ones after a weight of any
# of the parts has changed.
# run-tests: 50 s
set -u
source tests/tap
source tests/howto/page

block c 2 docs/howto/add-an-attention.md >"$work/shared_qk.c"
block c 2 docs/howto/add-a-feed-forward.md >"$work/glu.c"
cp tests/howto/outside/*.c "$work"
built=${weft%/*}
read -ra compile <"$built/flags"
read -ra libraries <<<"-ljansson -lzstd $(pkg-config --libs libpcre2-8 libutf8proc) -lm -lpthread"
for file in shared_qk glu surprise outside; do
    "${compile[@]}" -c "$work/$file.c" -o "$work/$file.o" || break
done && "${compile[@]}" "$work"/*.o "$built/libweft.a" "${libraries[@]}" -o "$work/outside"
result $? "the parts compile outside the tree, and the program links with the library" || finish

gates() { # PRESET SETTINGS
    local json=
    json=$("$work/outside" gates "$1" "$2" | tee "$work/gates" | tail -n 1) && [[ $(field failed <<<"$json") == 0 ]] &&
        (($(field checks <<<"$json") > 0))
    result $? "the gates hold: $1 $2: $json" || grep '^#' "$work/gates"
}

# compare FORMAT PRESET SETTINGS [NAME]: exports a model, sets json to the result of the comparison.
compare() {
    rm -rf "$work/model"
    json=$(WEFT_PYTHON=$python HF_HUB_OFFLINE=1 HF_MODULES_CACHE=$work/modules "$work/outside" export "$1" "$2" \
        "$3 layers=3 width=32 heads=4 context=64 vocab=97 dtype=f32" "$work/model" "${@:4}") &&
        [[ $(field checked_by <<<"$json") != "" && $(field tokens <<<"$json") == 64 ]]
}

exports() { # FORMAT PRESET SETTINGS
    local unclear
    compare "$@" && unclear=$(field tokens_unclear <<<"$json") &&
        ((unclear < 16 && $(field tokens_agree <<<"$json") + unclear == 64))
    result $? "$1: the same logits: $2 $3: $json"
}

differs() { # FORMAT PRESET SETTINGS NAME
    compare "$@" && (($(field tokens_agree <<<"$json") + $(field tokens_unclear <<<"$json") < 8))
    result $? "$1: a change of $4 is found: $json"
}

all="attn=shared_qk ffn=glu surprise=yes"
gates gpt2 "$all"
gates llama "$all shared_values=yes m1=yes m1_mode=prefix m2=yes m3=yes"
python=$(tools/venv.sh 2>"$work/why") || { skip "exports" "$(cat "$work/why")"; finish; }
for format in onnx hf torch; do
    exports $format llama "$all m1=yes m1_mode=prefix m2=yes m3=yes"
done
differs onnx gpt2 "$all" surprise.p
differs torch gpt2 "$all" attn.wq
if [[ ${WEFT_EVERY:-} == 1 ]]; then
    exports onnx llama "$all shared_values=yes ra_alpha=0.5"
    exports onnx llama "attn=latent surprise=yes surprise_rank=5"
    for format in onnx hf torch; do
        exports $format gpt2 attn=shared_qk
        exports $format gpt2 ffn=glu
        exports $format gpt2 surprise=yes
        for name in attn.wq ffn.w3 surprise.p surprise.w; do
            differs $format gpt2 "$all" "$name"
        done
    done
fi
finish
