#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Follows docs/howto/add-an-attention.md and add-a-feed-forward.md to the letter in a copy of the tree: a row and a file
# each, taken from the pages. Options, Kconfig and gates must take them up automatically.
set -eu
source tests/howto/page
copy_tree

add() { # add PAGE FILE: the row goes in front of the list of #undefs, the file in its place
    row=$(block c 1 "docs/howto/$1.md")
    sed -i "0,/^#undef/s//$row\n#undef/" "$work/src/nn/parts.def"
    block c 2 "docs/howto/$1.md" >"$work/src/nn/$2"
    lines=$(wc -l <"$work/src/nn/$2")
    [ "$lines" -le 60 ] || { echo "$1: the file has $lines lines, more than 60"; exit 1; }
}

add add-an-attention attn/shared_qk.c
add add-a-feed-forward ffn/glu.c
make -C "$work" -j2 build >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }

weft=$work/build/weft
for option in shared_values glu_lambda; do
    "$weft" help options >"$work/options"
    grep -q "$option" "$work/options" || { echo "weft help options does not tell of $option"; exit 1; }
    "$weft" help options --as kconfig >"$work/kconfig"
    grep -qi "config WEFT_$option" "$work/kconfig" || { echo "Kconfig does not have $option"; exit 1; }
done
verify() {
    "$weft" verify "$@" >"$work/verify" || { cat "$work/verify"; exit 1; }
}
verify llama --set attn=shared_qk --set shared_values=yes
verify gpt2 --set ffn=glu --set m2=yes
grep -q '^ffn=glu: no independent definition' "$work/verify" || { echo "verify does not say that ffn=glu has no definition"; exit 1; }
verify gpt2 --set attn=shared_qk --set ffn=glu --set m1=yes --set m3=yes
echo "ok: one row and one file make an attention, and a feed-forward"
