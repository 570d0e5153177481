#!/bin/sh
# SPDX-License-Identifier: MIT
# Follows docs/howto/add-an-attention.md and add-a-feed-forward.md to the letter in a copy of the tree: a row and a file
# each, taken from the pages. Options, Kconfig and gates must take them up unasked.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/build"
# With their dates, and with what is built already: only what the new rows touch is compiled.
cp -rp "$top/Makefile" "$top/src" "$top/include" "$top/tools" "$top/third_party" "$top"/*.in "$work/"
built=${WEFT_BUILD:-$top/build}/release
[ ! -d "$built" ] || cp -rp "$built" "$work/build/"

block() { # block N PAGE: its N-th C block
    awk -v n="$1" '/^```c$/ { at++; inside = 1; next } /^```$/ { inside = 0 } inside && at == n' "$top/docs/howto/$2.md"
}

add() { # add PAGE FILE: the row goes in front of the list of #undefs, the file in its place
    row=$(block 1 "$1")
    sed -i "0,/^#undef/s//$row\n#undef/" "$work/src/nn/variants.def"
    block 2 "$1" >"$work/src/nn/$2"
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
verify gpt2 --set attn=shared_qk --set ffn=glu --set m1=yes --set m3=yes
echo "ok: one row and one file make an attention, and a feed-forward"
