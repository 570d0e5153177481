#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# onnx.sh [large] - exported ONNX files compute the same results as Weft.
# run-tests: 13 s
exec tests/export/run onnx_parity.py "$@"
