#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# variants.sh [presets] - models in which all pairs of choices occur, and trained ones, in transformers with their own code.
# run-tests: 37 s
exec tests/export/run variants.py "$@"
