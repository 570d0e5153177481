#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# gguf.sh - GGUF files in and out, with PyPI's gguf as the other side.
exec tests/export/run "gguf==0.19.0 numpy==2.2.6" gguf_files.py
