#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# gguf.sh - GGUF files in and out, with PyPI's gguf as the other side (tests/export/gguf_files.py).
set -u
weft=$(realpath "${WEFT:-build/weft}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=$(tools/venv.sh gguf==0.19.0 numpy==2.2.6 2>"$scratch/why") || { echo "skip: $(cat "$scratch/why")"; exit 77; }
"$python" tests/export/gguf_files.py "$weft" "$scratch"
