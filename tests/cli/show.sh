#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The weights, FLOPs, memory and cache that `weft show` reports, compared with their expected values.
# run-tests: 3 s
set -u
source tests/tap

value() { # KEY SETTING...: a number of `weft show $model` with these settings
    local key=$1
    shift
    "$weft" show "$model" "${@/#/--set=}" --json | sed -n "s/.*\"$key\": \([-0-9.e+]*\).*/\1/p"
}

# holds NAME CONDITION: an awk expression
holds() {
    awk "BEGIN { exit !($2) }"
    result $? "$1"
}

model=gpt2-124m
holds "latent cache is exactly a sixth of multi-head's" \
    "$(value cache_bytes_per_token_layer) == 6 * $(value cache_bytes_per_token_layer attn=latent latent_width=128)"
holds "shared latent cache is exactly a twelfth" \
    "$(value cache_bytes_per_token_layer) == 12 * $(value cache_bytes_per_token_layer attn=latent latent_width=128 latent_shared=yes)"
holds "w2 split has the parameters of dot plus one per head and layer" \
    "$(value params geom=w2) == $(value params) + 12 * 12"
holds "w2 split caches one f32 more per key head" \
    "$(value cache_bytes_per_token_layer geom=w2) == $(value cache_bytes_per_token_layer) + 12 * 4"

# The mechanisms on latent attention
latent="attn=latent latent_width=128"
all="$latent m1=yes m2=yes m3=yes"
# shellcheck disable=SC2086
{
    holds "M1-M3 add at most 11 % weights" "$(value params $all) <= 1.11 * $(value params $latent)"
    # Without AMX the packed matrices, which count as activations, are f32.
    if [[ $("$weft" version --json) == *'"isa": "amx"'* ]]; then
        holds "M1-M3 add at most 8 % activations" \
            "$(value activation_bytes $all) <= 1.08 * $(value activation_bytes $latent)"
    else
        skip "M1-M3 add at most 8 % activations" "needs AMX"
    fi
    holds "M1-M3 add at most 15 % memory" "$(value peak_bytes $all) <= 1.15 * $(value peak_bytes $latent)"
}

# WsFFN: 8 heads of blocks cost a sixth of the feed-forward in training (at F = 4C), and nothing elsewhere
model=ws
ffn=$(value ffn_params ffn=swiglu)
holds "block heads cost at most 17 % of the feed-forward's FLOPs in training" \
    "$(value flops_train_per_token) - $(value flops_train_per_token ffn=swiglu) <= 0.17 * 6 * $ffn"
holds "and nothing in prefill" "$(value flops_prefill_per_token) == $(value flops_prefill_per_token ffn=swiglu)"
holds "and nothing in decoding" "$(value flops_decode_per_token) == $(value flops_decode_per_token ffn=swiglu)"

"$weft" show ra-mla --walk | grep -q "nn/recip/m3 -> nn/recip/m2 -> nn/recip/m1"
result $? "the walk names the mechanisms in order"
"$weft" show w2 | grep -q "attention : feed-forward"
result $? "the ratio is printed"

# near NAME REPORTED EXPECTED: the reported value is the expected one or, for work other than matmuls, up to 1 % more.
near() { holds "$1" "$2 >= $3 && $2 <= 1.01 * $3"; }
model=gpt2-124m
C=768 L=12 V=50257 T=1024
products="(12 * $L * $C * $C + $V * $C)" scores="($C * $L * ($T + 1) / 2)"
near "FLOPs of a forward pass: 2 for each weight of a matrix, 4 for each width of a score" \
    "$(value flops_prefill_per_token)" "(2 * $products + 4 * $scores)"
near "FLOPs of training: 6 and 14" "$(value flops_train_per_token)" "(6 * $products + 14 * $scores)"
near "FLOPs of decoding the last token" "$(value flops_decode_per_token)" "(2 * $products + 4 * $C * $L * $T)"
near "w2 split has dot's FLOPs" "$(value flops_train_per_token geom=w2)" "(6 * $products + 14 * $scores)"
near "latents: two matmuls down, two up" "$(value flops_prefill_per_token attn=latent latent_width=128)" \
    "(2 * $products - 4 * $L * $C * ($C - 256) + 4 * $scores)"

# The same by what it is for: attention, feed-forward, mechanisms, and the rest.
near "attention: four matmuls, and scores" "$(value attn_flops_prefill)" "(8 * $L * $C * $C + 4 * $scores)"
near "in training" "$(value attn_flops_train)" "(24 * $L * $C * $C + 14 * $scores)"
near "in decoding the last token" "$(value attn_flops_decode)" "(8 * $L * $C * $C + 4 * $C * $L * $T)"
near "feed-forward: two matmuls of 4 C^2" "$(value ffn_flops_prefill)" "(16 * $L * $C * $C)"
near "in training" "$(value ffn_flops_train)" "(48 * $L * $C * $C)"
near "the rest: logits" "$(value other_flops_prefill)" "(2 * $V * $C)"
near "in training" "$(value other_flops_train)" "(6 * $V * $C)"
for use in train prefill decode; do
    # shellcheck disable=SC2086
    for group in attn ffn other; do
        near "mechanisms add nothing to $group in $use" "$(value ${group}_flops_$use $all)" \
            "$(value ${group}_flops_$use $latent)"
    done
    # shellcheck disable=SC2086
    near "mechanisms: what they add to $use" \
        "($(value flops_${use}_per_token $all) - $(value flops_${use}_per_token $latent))" \
        "$(value recip_flops_$use $all)"
    a=$(value attn_flops_$use) f=$(value ffn_flops_$use) s=$(value shift_$use)
    holds "the shift to 1 : 2.5 in $use" "(($f + $s * $a) / ($a - $s * $a) - 2.5) ^ 2 < 1e-10"
done
for settings in m1=yes "m1=yes m2=yes ffn=ws recompute=yes"; do
    # shellcheck disable=SC2086
    sum=$(for group in attn ffn recip other; do value ${group}_flops_train $latent $settings; done | paste -sd+)
    # shellcheck disable=SC2086
    holds "all of them, with $settings" "(($sum) / $(value flops_train_per_token $latent $settings) - 1) ^ 2 < 1e-14"
done
holds "no mechanism, no FLOPs" "$(value recip_flops_train) == 0"
model=llama
C=128 L=2 V=64 T=128 F=384
near "SwiGLU has three matmuls" "$(value flops_prefill_per_token)" \
    "(2 * ($L * $C * (4 * $C + 3 * $F) + $V * $C) + 4 * $C * $L * ($T + 1) / 2)"
finish
