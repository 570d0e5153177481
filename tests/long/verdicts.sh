#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# verdicts.sh - how often verdicts on equal arms are wrong, in 100,000 simulated studies of every kind: tests/unit/looks.c
# at its full size.
set -u
source tests/tap
STUDIES=100000 "$(dirname "${WEFT:-build/release/weft}")/tests/unit/looks"
result $? "verdicts on equal arms are wrong in at most 5 % of 100000 studies"
finish
