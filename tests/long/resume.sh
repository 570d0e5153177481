#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# resume.sh - runs tests/fault/resume.sh with ten times the number of runs.
WEFT_KILLED_RUNS=200 exec tests/fault/resume.sh
