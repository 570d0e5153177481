#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# readme.sh - the commands of README.md, run in a copy of the tree, have the results it describes. They are run as
# written, except that its study, its training on text and the model of its plan are smaller unless WEFT_EVERY=1 (make
# long-whole).
# run-tests: 69 s
set -u
source tests/tap
source tests/howto/page
copy_tree
smaller='s/^make  /make SET="steps=20 warmup=5 seeds=3 lrs=1e-6,3e-3,1"  /; s/plan gpt2-124m/plan gpt2-mini/; s/steps=200/steps=20/'
[[ ${WEFT_EVERY:-} != 1 ]] || smaller=
follow README.md "$smaller"
result $? "README.md: every command runs"
tail -20 "$work/log" | sed 's/^/# /'
grep -q 'is worse than\|is better than\|not differ measurably from' "$work/log"
result $? "its study reaches a verdict"
[[ -s $work/studies/recall-quick/report.html ]]
result $? "and leaves the report"
finish
