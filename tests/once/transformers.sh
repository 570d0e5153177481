#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# transformers.sh - models that cross between Hugging Face's transformers and Weft under names that both know.
# run-tests: 63 s
exec tests/export/run parity.py
