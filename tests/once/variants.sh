#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# variants.sh [presets] - models in which all pairs of choices occur, and trained ones, in transformers with their own code.
exec tests/export/run "torch==2.13.0 transformers==5.23.0 numpy==2.2.6" variants.py "$@"
