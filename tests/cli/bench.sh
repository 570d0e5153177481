#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `weft bench` on tiny models: results that do not depend on the machine, and that every benchmark of a model runs.
# run-tests: 20 s
set -u
source tests/tap

field() { sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p"; }
holds() { # NAME CONDITION: an awk expression
    awk "BEGIN { exit !($2) }"
    result $? "$1"
}
share() { # SETTING...: FLOPs of attention in training, at 64 tokens, as `weft show` counts them
    "$weft" show gpt2 --set context=64 "$@" --json 2>/dev/null | field attn_flops_train
}

for settings in geom=dot "geom=w2 spread=full" geom=overlap "attn=latent latent_width=16" \
    "geom=w2 attn=latent latent_width=16 pos=rope"; do
    read -ra sets <<<"$settings"
    sets=("${sets[@]/#/--set=}")
    positions=()
    [[ $settings != *rope* ]] || positions=(--set pos=rope)
    json=$("$weft" bench attention --preset gpt2 "${sets[@]}" --length 64,128 --seconds 1 --threads 1 --json 2>/dev/null)
    holds "$settings: FLOPs relative to dot products and full keys match weft show" \
        "(($(field flops_64 <<<"$json") * $(share "${positions[@]}") / $(share "${sets[@]}")) - 1) ^ 2 < 1e-4"
    holds "and memory grows with the length, at most in proportion" \
        "$(field planned_bytes_128 <<<"$json") > $(field planned_bytes_64 <<<"$json") &&
         $(field planned_bytes_128 <<<"$json") < 2.1 * $(field planned_bytes_64 <<<"$json")"
    holds "and time is measured" "$(field seconds_64 <<<"$json") > 0 && $(field time_128 <<<"$json") > 0"
    [[ $settings != geom=dot ]] ||
        holds "and the baseline is itself" "$(field flops_128 <<<"$json") == 1 && $(field mem_128 <<<"$json") == 1"
done
json=$("$weft" bench attention --length 64 --seconds 1 --threads 1 --json 2>/dev/null)
holds "attention alone at one length" "$(field length <<<"$json") == 64 && $(field share_of_product <<<"$json") > 0"

# M2: fewer rows gathered, fewer FLOPs
of() { # VARIANT KEY: of its costs relative to latents alone
    "$weft" bench variants --preset gpt2 --set layers=2 --set latent_width=16 --only "$1" --seconds 1 --threads 1 --json \
        2>/dev/null | field "$2$1"
}
topk=$(of m2_topk flops_)
holds "M2 that gathers from few tokens has fewer FLOPs than from all" "1 < $topk && $topk < $(of m2_none flops_)"
holds "and bytes are counted" "$(of m2_rms bytes_) > 1"
json=$("$weft" bench variants --preset gpt2 --set layers=1 --only swiglu --seconds 1 --threads 1 --json 2>/dev/null)
holds "quartiles around the median, of some rounds" "$(field rounds_swiglu <<<"$json") >= 3 && \
    0 < $(field low_swiglu <<<"$json") && $(field low_swiglu <<<"$json") <= $(field swiglu <<<"$json") && \
    $(field swiglu <<<"$json") <= $(field high_swiglu <<<"$json")"
finish
