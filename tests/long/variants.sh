#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# variants.sh - models in which all pairs of choices occur, and every preset, in transformers with their own code.
exec tests/once/variants.sh presets
