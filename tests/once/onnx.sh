#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# onnx.sh [large] - exported ONNX files compute what Weft does.
exec tests/export/run "onnx==1.23.2 onnxruntime==1.31.1 onnxruntime-genai==0.18.0 numpy==2.2.6" onnx_parity.py "$@"
