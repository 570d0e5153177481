#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# readme.sh - the commands of README.md, run as written in a copy of the tree, lead to what it says.
set -u
source tests/tap
source tests/howto/page
copy_tree
follow README.md
result $? "README.md: every command runs"
tail -20 "$work/log" | sed 's/^/# /'
grep -q 'is worse than\|is better than\|cannot yet be distinguished' "$work/log"
result $? "its study comes to a verdict"
[[ -s $work/studies/recall-quick/report.html ]]
result $? "and leaves the report"
finish
