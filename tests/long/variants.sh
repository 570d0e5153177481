#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# variants.sh - models in which all pairs of option values occur, and every preset, run in transformers with their own
# code.
exec tests/once/variants.sh presets
