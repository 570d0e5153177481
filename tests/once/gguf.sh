#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# gguf.sh - imports and exports GGUF files, compared with PyPI's gguf.
# run-tests: 21 s
exec tests/export/run gguf_files.py
