#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tokenizers.sh - compares the tokenizers of Hugging Face's models with PyPI's tokenizers.
# run-tests: 21 s
[[ -f ${WEFT_DATA:-}/se-prose/train.txt ]] || { echo "skip: no prose in WEFT_DATA"; exit 77; }
exec tests/export/run tokens.py
