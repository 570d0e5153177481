#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Follows docs/howto/add-an-op.md to the letter in a copy of the tree: one row and one file, both taken from the page.
set -eu
source tests/howto/page
copy_tree
block c 1 docs/howto/add-an-op.md >>"$work/src/ops/ops.def"
block c 2 docs/howto/add-an-op.md >"$work/src/ops/square.c"

# Every op is compiled again: for one level only, and quickly.
make -C "$work" -j2 LEVELS= OPT=-O1 build >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
"$work/build/weft" check --op square --json >"$work/result"
grep -q '"ops": *1' "$work/result" && grep -q '"failed": *0' "$work/result" || { cat "$work/result"; exit 1; }
echo "ok: one row and one file make an op ($(tr -d '\n' <"$work/result"))"
