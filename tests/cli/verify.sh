#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# verify.sh - weft verify distinguishes a correct model from one that sees later tokens, and names the place.
# run-tests: 9 s
set -u
source tests/tap

out=$("$weft" verify llama --set dtype=f32 --gate live)
result $? "a preset passes"
! grep -v '^PASSED llama f32 .* live ' <<<"$out" | grep -E '^(PASSED|FAILED)'
result $? "by the gate that was asked for, once"

leak="--set m1=yes --set m1_mode=sequence"
out=$("$weft" verify gpt2 $leak --gate causal 2>/dev/null)
(($? == 1)) && grep -q '^FAILED gpt2 f32 .* causal .* logits of position 0 depend on the token at' <<<"$out"
result $? "a gate over the whole sequence fails, and the position is reported"

out=$("$weft" verify gpt2 $leak --gate causal --json 2>/dev/null)
(($? == 1)) && grep -Eq '"failed": [1-9]' <<<"$out"
result $? "also as JSON"
finish
