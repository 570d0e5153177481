#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# transformers.sh - exchanges models between Hugging Face's transformers and Weft, for architectures that both have.
# run-tests: 63 s
exec tests/export/run parity.py
