#!/bin/sh
# SPDX-License-Identifier: MIT
# Follows docs/howto/add-an-op.md to the letter in a copy of the tree: one row and one file, both taken from the page.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page=$top/docs/howto/add-an-op.md

mkdir "$work/build"
# With their dates, and with what is built already: only what the new row touches is compiled.
cp -rp "$top/Makefile" "$top/src" "$top/include" "$top/tools" "$top/third_party" "$top"/*.in "$work/"
built=${WEFT_BUILD:-$top/build}/release
[ ! -d "$built" ] || cp -rp "$built" "$work/build/"

# The first C block is the row, the second the file.
awk '/^```c$/ { block++; inside = 1; next } /^```$/ { inside = 0 } inside && block == 1' "$page" >>"$work/src/ops/ops.def"
awk '/^```c$/ { block++; inside = 1; next } /^```$/ { inside = 0 } inside && block == 2' "$page" >"$work/src/ops/square.c"

make -C "$work" -j2 build >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
"$work/build/weft" check --op square --json >"$work/result"
grep -q '"ops": *1' "$work/result" && grep -q '"failed": *0' "$work/result" || { cat "$work/result"; exit 1; }
echo "ok: one row and one file make an op ($(tr -d '\n' <"$work/result"))"
