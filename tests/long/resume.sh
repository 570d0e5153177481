#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# resume.sh - tests/fault/resume.sh with ten times as many runs.
WEFT_KILLED_RUNS=200 exec tests/fault/resume.sh
