#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# variants.sh [presets] - models in which all pairs of option values occur, and trained ones, run in transformers with
# their own code.
# run-tests: 37 s
exec tests/export/run variants.py "$@"
