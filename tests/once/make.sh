#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# make.sh - make lists its targets, uses all cores by default, and the number of jobs passed with -j otherwise.
# run-tests: 11 s
set -u
source tests/tap
use_scratch
unset MAKEFLAGS MAKELEVEL MFLAGS

make --no-print-directory help >"$scratch/help"
undocumented=$(sed -n 's/^\.PHONY: \(.*\)/\1/p' Makefile tools/*.mk | tr ' \\' '\n\n' | grep -E '^[a-z-]+$' |
    grep -vxE 'all|study|long-fuzz|fuzz-programs' | while read -r target; do
    grep -q "\<$target\>" "$scratch/help" || echo "$target"
done)
[[ -s $scratch/help && -z $undocumented ]]
result $? "make help lists every target $undocumented"
mkdir "$scratch/tree" && cp -r Makefile tools include "$scratch/tree" && rm "$scratch/tree/tools/run_tests.py"
make --no-print-directory -C "$scratch/tree" help 2>&1 | cmp -s - "$scratch/help"
result $? "the list of tests is only made for targets that run them"

cat >"$scratch/Makefile" <<'END'
include Makefile
jobs:
	@echo "$(MAKEFLAGS)" | grep -oE " -j[0-9]+" | tr -d " "
inner:
	@$(MAKE) --no-print-directory -f $(firstword $(MAKEFILE_LIST)) jobs
END
jobs_of() { make --no-print-directory -f "$scratch/Makefile" "$@" 2>&1; }
[[ $(jobs_of jobs) == -j$(nproc) ]]
result $? "make uses all cores"
[[ $(jobs_of jobs -j3) == -j3 && $(jobs_of jobs -j1) == -j1 ]]
result $? "-jN is respected"
[[ $(MAKEFLAGS=-j3 jobs_of jobs) == -j3 ]]
result $? "and so is MAKEFLAGS"
[[ $(jobs_of inner) == -j$(nproc) && $(jobs_of inner -j3) == -j3 && $(jobs_of inner -j1) == -j1 ]]
result $? "a make within a make shares its jobs"
finish
