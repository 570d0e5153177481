#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# study.sh - runs tests/fault/ablate.sh on twenty killed studies.
WEFT_KILLED_STUDIES=20 exec tests/fault/ablate.sh
