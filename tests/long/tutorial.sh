#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tutorial.sh - docs/tutorial.md, followed literally in a copy of the tree, ends with a verdict.
set -u
source tests/tap
source tests/howto/page
copy_tree
howto=docs/howto/add-an-attention.md
sed -i "0,/^#undef/s//$(block c 1 $howto)\n#undef/" "$work/src/nn/parts.def"
block c 2 $howto >"$work/src/nn/attn/shared_qk.c"
block kconfig 1 docs/tutorial.md >"$work/configs/shared-qk"
follow docs/tutorial.md
result $? "docs/tutorial.md: every command runs"
tail -12 "$work/log" | sed 's/^/# /'
grep -q 'worse by\|better by\|not resolved' "$work/log"
result $? "its study reaches a verdict"
finish
