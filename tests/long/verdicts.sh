#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# verdicts.sh - measures how often verdicts are wrong in simulated studies: tests/unit/looks.c with 100,000 of every kind,
# and tests/unit/ladder.c with 10,000.
set -u
source tests/tap
tests=$(dirname "$weft")/tests/unit
STUDIES=100000 "$tests/looks"
result $? "verdicts on equal arms are wrong in at most 5 % of 100000 studies"
STUDIES=10000 "$tests/ladder"
result $? "intervals of ladders cover the truth in 93 to 97 % of 10000, and verdicts on them are right"
finish
