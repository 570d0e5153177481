#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# gguf.sh - GGUF files in and out, with PyPI's gguf as the other side.
# run-tests: 21 s
exec tests/export/run gguf_files.py
