#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# onnx.sh [large] - exported ONNX files compute what Weft does (tests/export/onnx_parity.py).
set -u
weft=$(realpath "${WEFT:-build/weft}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=$(tools/venv.sh onnx==1.23.2 onnxruntime==1.31.1 onnxruntime-genai==0.18.0 numpy==2.2.6 2>"$scratch/why") || { echo "skip: $(cat "$scratch/why")"; exit 77; }
library=$(dirname "$(readlink -f "$weft")")/libweft.so.0
"$python" tests/export/onnx_parity.py "$weft" "$library" "$scratch" "$@"
