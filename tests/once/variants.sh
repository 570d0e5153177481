#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# variants.sh - models in which all pairs of choices occur, and trained ones, in transformers with their own code.
exec tests/export/run variants.py
